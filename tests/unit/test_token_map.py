"""Drafts whose vocabulary is not the target's: what is read, what is drafted, and that no text changes."""

from __future__ import annotations

import numpy as np
import pytest

from edge_spec.config import Sampling
from edge_spec.drafters import ModelDrafter, TokenMap
from edge_spec.drafters.chain import Chain
from edge_spec.drafters.token_map import Translation
from edge_spec.engine import Engine
from edge_spec.events import Drafted, Finished, Verified
from edge_spec.planner import FixedPlanner
from edge_spec.sampling import SamplerChain
from edge_spec.target import ModelTarget
from edge_spec.testing import TableCache, TableModel
from edge_spec.types import Budget, Fate, Rows, Slot, Timers, Verdict
from edge_spec.verify import make_coupling

P = TableModel(12, seed=1)
PIECES = [b"a", b"b", b"c", b"d", b"ab", b"abc", b"cd", b"dd", b"", b"bc", b"zz", b"a\xff"]
GREEDY, WARM = Sampling(temperature=0), Sampling(temperature=0.9, top_k=8, top_p=0.97, min_p=0.01)
UNTRUNCATED = Sampling(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)
PENALISED = Sampling(temperature=0.9, repeat_penalty=1.3, logit_bias=((11, 2.0), (2, 1.0)))
TRIMMED = (0, 1, 2, 3, 5, 8, 11)


def trimmed_map(masked=()):
    return TokenMap(12, TRIMMED, PIECES.__getitem__, lambda: [PIECES[i] for i in TRIMMED], masked)


def masked_map():
    """The draft has 14 tokens; 3 and 7 mean something else there, and it has none of the target's `zz`."""
    pieces = [*PIECES[:3], b"XX", *PIECES[4:7], b"YY", *PIECES[8:], b"q", b"r"]
    return TokenMap(12, range(12), PIECES.__getitem__, lambda: pieces, masked=(3, 7))


def trimmed_draft(model):
    """`model` seen through the trimmed vocabulary."""
    draft = TableModel(len(TRIMMED), 0, model.order)
    ids = [*TRIMMED, model.num_vocab]
    draft._table = model._table[np.ix_(ids, ids, TRIMMED)]
    return draft


def widened_draft(model):
    """`model` with two tokens more, which it likes as well as the others."""
    draft = TableModel(14, 4, model.order)
    ids = [*range(12), 14]
    draft._table[np.ix_(ids, ids, range(12))] = model._table
    return draft


DRAFTS = {
    "trimmed": (trimmed_map, lambda: trimmed_draft(TableModel(12, seed=2).blend(P, 0.7))),
    "trimmed, some masked": (
        lambda: trimmed_map(masked=(2, 10)),
        lambda: trimmed_draft(TableModel(12, seed=2).blend(P, 0.7)),
    ),
    "masked, larger than the target": (
        masked_map,
        lambda: widened_draft(TableModel(12, seed=2).blend(P, 0.7)),
    ),
}


def slot(prompt, *, seq=0, sampling=GREEDY, max_tokens=30, coupling="shared", eog=()):
    def cut(tokens):
        return next(((i + 1, "eog") for i, token in enumerate(tokens) if token in eog), None)

    return Slot(
        seq, list(prompt), len(prompt), max_tokens, make_coupling(coupling, 7, seq),
        SamplerChain(sampling), SamplerChain(sampling), cut,
    )  # fmt: skip


def run(slots, k, draft=None, *, replays=False, batch_size=64, context_size=256, num_slots=1):
    timers = Timers()
    sizes = {"batch_size": batch_size, "context_size": context_size, "num_slots": num_slots}
    target = TableCache(P, **sizes)
    make_map, make_model = DRAFTS[draft or "trimmed"]
    cache = TableCache(make_model(), replays=replays, **sizes)
    drafter = ModelDrafter(cache, P.num_vocab, timers, make_map())
    engine = Engine(ModelTarget(target, timers), drafter, FixedPlanner(k), timers)
    return list(engine.generate(slots))


def text(events, index=0):
    return [t for e in events if isinstance(e, Verified) and e.slot == index for t in e.verdict.tokens]


def drafted(events):
    return [token for e in events if isinstance(e, Drafted) for token in e.proposal.tokens]


@pytest.mark.parametrize("replays", [False, True], ids=["trims", "replays"])
@pytest.mark.parametrize("k", [1, 3, 7])
@pytest.mark.parametrize(
    "sampling", [GREEDY, WARM, UNTRUNCATED, PENALISED], ids=["greedy", "warm", "dense", "penalised"]
)
@pytest.mark.parametrize("draft", DRAFTS)
def test_text_with_a_mapped_draft_equals_plain_text(draft, sampling, k, replays):
    prompt = [1, 10, 4, 8, 7]  # tokens that the drafts lack or read otherwise
    plain = run([slot(prompt, sampling=sampling)], 0)
    events = run([slot(prompt, sampling=sampling)], k, draft, replays=replays)
    assert text(events) == text(plain)
    stats = next(e for e in events if isinstance(e, Finished)).stats
    assert stats.accepted > 0
    assert stats.drafted == stats.accepted + stats.rejected + stats.discarded


@pytest.mark.parametrize("draft", DRAFTS)
def test_only_mapped_tokens_and_those_spelled_in_the_text_are_ever_drafted(draft):
    allowed = {"trimmed": set(TRIMMED), "trimmed, some masked": set(TRIMMED) - {2}}.get(
        draft, set(range(12)) - {3, 7}
    )
    seen, spelled = set(), set()
    for seed in range(4):
        events = run([slot([1, seed], sampling=UNTRUNCATED, max_tokens=40)], 5, draft)
        known, own = {1, seed}, DRAFTS[draft][0]()
        for event in events:
            if isinstance(event, Drafted):
                words = {token for token in known if len(own.spell(token)) > 1}
                assert set(event.proposal.tokens) <= allowed | words
                seen |= set(event.proposal.tokens)
                spelled |= set(event.proposal.tokens) - allowed
            if isinstance(event, Verified):
                known |= set(event.verdict.tokens)
    assert len(seen & allowed) > len(allowed) // 2
    assert bool(spelled) == (draft != "masked, larger than the target")  # whose letters are masked


@pytest.mark.parametrize("size", range(6, 16))
@pytest.mark.parametrize("draft", DRAFTS)
def test_a_context_that_the_longer_spelling_fills_first_costs_only_drafts(draft, size):
    prompt = [5, 7, 9]
    events = run([slot(prompt)], 5, draft, context_size=size)
    assert text(events) == text(run([slot(prompt)], 0, context_size=size))


@pytest.mark.parametrize("size", range(7, 16))
def test_a_planner_that_always_wants_more_gets_no_more_than_fits(size):
    tokens, timers = [5, 7, 9], Timers()
    draft = TableCache(DRAFTS["trimmed"][1](), context_size=size, batch_size=64, num_slots=1)
    drafter = ModelDrafter(draft, P.num_vocab, timers, trimmed_map())
    drafter.begin(slot(tokens))
    (proposal,) = drafter.propose([slot(tokens)], [Budget(1, 16, "draft", lambda _gap: 16)])
    spelled = sum(len(trimmed_map().spell(token)) for token in tokens)
    chosen = sum(len(trimmed_map().spell(token)) for token in proposal.tokens)
    # One token less where the context ended in the middle of a word.
    assert 0 <= size - spelled + 1 - chosen <= 1 or (size < spelled and not chosen)


def test_several_slots_at_once_each_give_the_text_that_they_give_alone():
    prompts = [[i, 10, 4] * (i + 1) for i in range(4)]
    together = run(
        [slot(p, seq=i, sampling=WARM) for i, p in enumerate(prompts)], 3, num_slots=4, batch_size=16
    )
    for i, prompt in enumerate(prompts):
        assert text(together, i) == text(run([slot(prompt, seq=i, sampling=WARM)], 0, num_slots=4))


def test_a_text_of_tokens_that_cannot_be_spelled_is_decoded_plainly_until_it_can():
    events = run([slot([10, 10], max_tokens=30)], 3)
    assert text(events) == text(run([slot([10, 10], max_tokens=30)], 0))


class Speller:
    """Rows of a draft that surely goes on with the given target tokens, one after the other."""

    def __init__(self, *tokens):
        self.rows = []
        for token in tokens:
            row = np.full(12, -9.0, np.float32)
            row[token] = 9.0
            self.rows.append(row)

    def draft(self, text, length=4, room=9, more=None):
        translation = Translation(trimmed_map())
        translation.follow(text)
        chain = Chain(slot(text), length, room, more, None, translation)
        fed = []
        while not chain.full and self.rows:
            chain.extend(self.rows.pop(0))
            fed.append(chain.next_id)
        return list(chain.proposal("draft").tokens), fed


def test_a_token_of_the_text_that_the_draft_lacks_is_proposed_from_its_letters():
    # 4 is "ab": a, b for the draft, and 6 is "cd": c, d.
    assert Speller(0, 1, 2, 3, 8, 8).draft([4, 6, 0]) == ([4, 6, 8, 8], [0, 1, 2, 3, 5, 5])


def test_what_the_text_does_not_have_is_not_put_together():
    assert Speller(0, 1, 2, 3).draft([4, 8])[0] == [4, 2, 3]
    assert Speller(0, 1, 2, 3).draft([8])[0] == [0, 1, 2, 3]


def test_a_word_that_goes_on_otherwise_leaves_its_first_letter():
    assert Speller(0, 2, 8, 8).draft([4])[0] == [0, 2, 8, 8]


def test_a_long_word_that_goes_on_otherwise_ends_the_draft():
    spellings = TokenMap(12, (0, 1, 2, 3), [*PIECES[:10], b"abcd", b""].__getitem__, lambda: PIECES[:4])
    translation = Translation(spellings)
    translation.follow([10])
    chain = Chain(slot([10]), 4, 9, None, None, translation)
    for row in Speller(0, 1, 3).rows:
        assert not chain.full
        chain.extend(row)
    assert chain.full
    assert chain.proposal("draft").tokens == (0,)


def test_a_word_is_one_node_however_many_letters_it_takes():
    asked = []
    tokens, fed = Speller(0, 1, 0, 1, 8).draft([4], length=2, more=lambda gap: asked.append(gap) or 2)
    assert (tokens, len(asked), len(fed)) == ([4, 4], 2, 4)


def test_a_context_that_ends_in_the_middle_of_a_word_leaves_its_first_letter():
    assert Speller(8, 0, 1).draft([4], room=2)[0] == [8, 0]


def test_the_draft_keeps_the_letters_of_a_word_that_was_accepted():
    timers, tokens = Timers(), [5, 4, 0]
    cache = TableCache(DRAFTS["trimmed"][1](), context_size=64)
    drafter = ModelDrafter(cache, P.num_vocab, timers, trimmed_map())
    text = slot(tokens)
    drafter.begin(text)
    drafter.propose([text], [Budget(1, 0, "draft")])
    cache.append([Rows(0, [4, 0, 1, 0, 0, 1, 2], 7)])  # the text, "ab" again, and "c"
    verdict = Verdict((4, 3), (0,), (Fate.ACCEPTED, Fate.REJECTED), "residual", (1.0, 0.0))
    drafter.observe([text], [verdict])
    assert list(cache.tokens(0)) == [4, 0, 1, 0, 0, 1]


def test_the_draft_reads_the_text_in_its_own_tokens():
    translation = Translation(trimmed_map())
    # 4 is "ab": a, b. 6 is "cd". 10 "zz" has no letter here, 11 is kept, 9 is "bc".
    assert list(translation.follow([5, 4, 6, 10, 11, 9])) == [4, 0, 1, 2, 3, 6, 1, 2]
    assert [translation.num_covered(n) for n in range(9)] == [0, 1, 1, 2, 2, 4, 5, 5, 6]
    assert [translation.end(i) for i in range(6)] == [1, 3, 5, 5, 6, 8]
    assert list(translation.follow([5, 4, 7, 0])) == [4, 0, 1, 3, 3, 0]
    assert list(translation.follow([5])) == [4]
    assert list(translation.follow([0, 0])) == [0, 0]


def test_a_masked_token_is_spelled_not_read_by_its_id():
    assert masked_map().spell(7) == ()  # "dd", and the draft's "d" is something else
    pieces = [b"a", b"b", b"other"]
    assert TokenMap(3, range(3), [b"a", b"b", b"ba"].__getitem__, lambda: pieces, (2,)).spell(2) == (1, 0)


def test_the_longest_match_is_taken():
    found = TokenMap(12, (0, 1, 2, 3, 4), PIECES.__getitem__, lambda: PIECES[:5]).spell(5)
    assert found == (4, 2)


def test_rows_are_mapped_by_id():
    row = trimmed_map(masked=(2,)).row(np.arange(7, dtype=np.float32))
    expected = np.full(12, -np.inf, np.float32)
    expected[[0, 1, 3, 5, 8, 11]] = [0, 1, 3, 4, 5, 6]
    assert np.array_equal(row, expected)
