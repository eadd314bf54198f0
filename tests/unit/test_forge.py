"""What forging decides and writes, without a model that runs: gains, layers, tokens, files, prompts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import bench_forge
import gguf
import numpy as np
import pytest

from edge_spec.drafters.token_map import TokenMap
from edge_spec.errors import OutputError, SettingError
from edge_spec.forge.gain import best_gain, expected_tokens
from edge_spec.forge.layers import Trial, choose, search
from edge_spec.forge.measure import Acceptance
from edge_spec.forge.recipe import Recipe
from edge_spec.forge.rewrite import Edit, KeyValue, rewrite
from edge_spec.forge.samples import SAMPLING, Sample, built_in_prompts, read_prompts, shortest
from edge_spec.forge.vocabulary import Vocabulary, check_trimmable, special_ids, trim
from edge_spec.models.facts import facts_of, target_ids_of
from edge_spec.models.header import check_loadable, read_header
from edge_spec.models.pairing import check_pair
from edge_spec.sampling import SamplerChain, likeliest
from edge_spec.testing import TableCache, TableModel
from edge_spec.types import Dist
from edge_spec.verify import overlap
from tests.gguf_maker import make_gguf

BYTES_AND_SPECIALS = 258
"""<s>, </s> and one token a byte: what the maker's vocabularies begin with."""


# -- what a draft is worth


def test_a_round_is_worth_a_geometric_sum() -> None:
    assert expected_tokens(0.5, 3) == 1.875
    assert expected_tokens(1.0, 4) == 5
    assert expected_tokens(0.0, 4) == 1


def test_the_length_with_the_best_speedup_is_found_on_a_staircase() -> None:
    # Four rows cost less than three, as in some kernels: K = 3 and not 2.
    gain = best_gain(0.8, 0.2, [1.0, 1.6, 2.2, 1.8, 3.0])
    assert gain.length == 3
    assert gain.speedup == pytest.approx(2.952 / 2.4)


def test_a_draft_that_never_pays_is_said_to_be_below_one() -> None:
    gain = best_gain(0.1, 1.0, [1.0, 2.0, 3.0])
    assert gain.length == 1
    assert gain.speedup == pytest.approx(1.1 / 3.0)


def test_overlap_is_the_mass_that_two_laws_share() -> None:
    p = Dist(np.array([1, 4, 6]), np.array([0.5, 0.3, 0.2]))
    q = Dist(np.array([0, 4, 6]), np.array([0.2, 0.7, 0.1]))
    assert overlap(p, q) == pytest.approx(0.4)
    assert likeliest(p) == 1
    assert likeliest(q) == 4


# -- layers


def trials_of(num_layers: int, costs: dict[int, float], num_dropped: int | None) -> list[Trial]:
    """A search where leaving out layer i costs `costs[i]` of acceptance, 0.02 unless said."""

    def attempt(first: int, end: int) -> Trial:
        found = 0.9 - sum(costs.get(layer, 0.02) for layer in range(first, end))
        step_s = 0.5 * (1 - (end - first) / num_layers)
        return Trial(
            first, end, Acceptance(found, found), best_gain(max(found, 0.0), step_s, [1.0, 1.1, 1.2])
        )

    return list(search(num_layers, attempt, num_dropped))


def test_the_block_grows_from_the_cheapest_place() -> None:
    costs = {**dict.fromkeys(range(28), 0.1), **dict.fromkeys(range(12, 20), 0.001)}
    chosen = choose(trials_of(28, costs, 6), 6)
    assert chosen is not None
    assert chosen.num_dropped == 6
    assert 12 <= chosen.first < chosen.end <= 20


@pytest.mark.parametrize(("num_dropped", "first"), [(8, 9), (14, 7), (14, 1), (3, 24)])
def test_the_best_place_of_a_block_is_found_with_few_trials(num_dropped: int, first: int) -> None:
    middle = first + (num_dropped - 1) / 2
    trials = trials_of(28, {i: 0.001 * abs(i - middle) for i in range(28)}, num_dropped)
    chosen = choose(trials, num_dropped)
    assert chosen is not None
    assert chosen.first == first
    assert len(trials) <= 13
    assert len({trial.first for trial in trials}) == len(trials)


@pytest.mark.parametrize("num_dropped", [1, 3, 10])
def test_first_and_last_layer_always_stay(num_dropped: int) -> None:
    trials = trials_of(12, {0: -1.0, 11: -1.0}, num_dropped)
    assert all(trial.first >= 1 and trial.end <= 11 for trial in trials)
    chosen = choose(trials, num_dropped)
    assert chosen is not None
    assert chosen.num_dropped == num_dropped


def test_without_a_number_growing_ends_where_it_no_longer_pays() -> None:
    costs = {**dict.fromkeys(range(28), 0.2), **dict.fromkeys(range(10, 18), 0.002)}
    chosen = choose(trials_of(28, costs, None), None)
    assert chosen is not None
    assert (chosen.first, chosen.end) == (11, 17)  # two layers at a time, from odd places
    assert choose([], None) is None


# -- files


def test_a_file_rewritten_without_an_edit_says_and_holds_the_same(tmp_path: Path) -> None:
    source = read_header(make_gguf(tmp_path / "in.gguf", chat_template="{{ x }}"))
    written = read_header(rewrite(source, tmp_path / "out.gguf", Edit()))
    ours, theirs = gguf.GGUFReader(source.path), gguf.GGUFReader(written.path)
    assert {k: f.contents() for k, f in ours.fields.items()} == {
        k: f.contents() for k, f in theirs.fields.items()
    }
    assert {k: f.types for k, f in ours.fields.items()} == {k: f.types for k, f in theirs.fields.items()}
    for one, other in zip(ours.tensors, theirs.tensors, strict=True):
        assert (one.name, one.tensor_type, list(one.shape)) == (
            other.name, other.tensor_type, list(other.shape),
        )  # fmt: skip
        assert np.array_equal(one.data, other.data)


def test_dropped_layers_are_gone_and_the_others_move_up(tmp_path: Path) -> None:
    source = read_header(make_gguf(tmp_path / "in.gguf", layers=5))
    per_layer = KeyValue(
        np.array([4, 3, 2, 1, 5], np.int32), gguf.GGUFValueType.ARRAY, gguf.GGUFValueType.INT32
    )
    source = read_header(
        rewrite(source, tmp_path / "arrays.gguf", Edit({"llama.attention.head_count": per_layer}))
    )
    written = read_header(rewrite(source, tmp_path / "out.gguf", Edit(dropped_layers=(1, 2))))
    assert written.num_layers == 3
    assert list(written.metadata["llama.attention.head_count"]) == [4, 1, 5]  # type: ignore[arg-type]
    old = {t.name: t.data for t in gguf.GGUFReader(source.path).tensors}
    new = {t.name: t.data for t in gguf.GGUFReader(written.path).tensors}
    assert set(new) == {name for name in old if not name.startswith(("blk.3.", "blk.4."))}
    for was, now in ((0, 0), (3, 1), (4, 2)):
        assert np.array_equal(new[f"blk.{now}.ffn_up.weight"], old[f"blk.{was}.ffn_up.weight"])


def test_a_file_that_cannot_be_written_is_an_output_error(tmp_path: Path) -> None:
    source = read_header(make_gguf(tmp_path / "in.gguf"))
    with pytest.raises(OutputError, match="cannot be written"):
        rewrite(source, tmp_path / "none" / "out.gguf", Edit())


# -- tokens


def sample(tokens: list[int]) -> Sample:
    return Sample(
        (0, 2),
        tuple(tokens),
        tuple(Dist(np.array([t]), np.ones(1), t) for t in tokens),
        np.zeros(700, np.float32),
    )


@pytest.fixture(params=["bpe", "spm"])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return make_gguf(tmp_path / "model.gguf", tokenizer=request.param, vocab_size=700)


def trimmed(path: Path, samples: list[Sample], num_tokens: int, target: Path | None = None) -> Path:
    header = read_header(path)
    words = Vocabulary(read_header(target or path), header, samples)
    kept = words.choose(num_tokens, samples)
    return rewrite(header, path.with_name("trimmed.gguf"), trim(header, kept, words.target_ids))


def test_what_the_target_writes_is_kept_then_the_lowest_ids(model: Path) -> None:
    written = read_header(trimmed(model, [sample([690, 691]), sample([692])], 400))
    ids = target_ids_of(written)
    assert ids is not None
    assert {690, 691, 692} <= set(ids.tolist())
    rest = sorted(set(ids.tolist()) - special_ids(read_header(model)) - {690, 691, 692})
    assert len(ids) == 400
    assert rest == sorted(rest)
    assert max(rest) < 690


def test_ids_and_what_was_likely_count_alike(model: Path) -> None:
    one = sample([300, 300])
    one.mass[690], one.mass[691] = 0.5, 1e-4
    ids = target_ids_of(read_header(trimmed(model, [one], 400)))
    assert ids is not None
    assert 690 in ids
    assert 691 not in ids


def test_as_many_tokens_are_kept_as_were_asked_for(tmp_path: Path) -> None:
    path = make_gguf(tmp_path / "model.gguf", vocab_size=700)
    for num_tokens in range(300, 308):  # a token may bring two parts, which may be one too many
        ids = target_ids_of(read_header(trimmed(path, [sample([698, 699])], num_tokens)))
        assert ids is not None
        assert len(ids) == num_tokens


def test_bytes_and_special_tokens_stay_however_few_are_asked_for(model: Path) -> None:
    ids = target_ids_of(read_header(trimmed(model, [sample([400])], 1)))
    assert ids is not None
    assert set(range(BYTES_AND_SPECIALS)) <= set(ids.tolist())


def test_rows_ids_and_types_stay_together(model: Path) -> None:
    header = read_header(model)
    written = read_header(trimmed(model, [sample([690])], 320))
    check_loadable(written)
    ids = target_ids_of(written)
    assert ids is not None
    assert [written.vocab.raw(i) for i in range(len(ids))] == [header.vocab.raw(int(t)) for t in ids]
    assert np.array_equal(written.vocab.token_types, header.vocab.token_types[ids])  # type: ignore[index]
    old = {t.name: t.data for t in gguf.GGUFReader(model).tensors}
    new = {t.name: t.data for t in gguf.GGUFReader(written.path).tensors}
    for name in ("token_embd.weight", "output.weight"):
        assert np.array_equal(new[name], old[name][ids])
    assert np.array_equal(new["blk.1.attn_q.weight"], old["blk.1.attn_q.weight"])
    assert (written.vocab.bos_id, written.vocab.eos_id) == (0, 1)


def test_a_token_brings_the_parts_that_it_is_merged_from(tmp_path: Path) -> None:
    path = make_gguf(tmp_path / "model.gguf", vocab_size=700)
    written = read_header(trimmed(path, [sample([699])], 260))
    texts = set(written.vocab.texts())
    merges = written.metadata["tokenizer.ggml.merges"]
    for merge in merges:  # type: ignore[union-attr]
        left, right = merge.split(b" ")
        assert {left, right, left + right} <= texts
    assert written.vocab.num_merges == sum(1 for text in texts if len(text) == 2 and text.isascii())


def test_a_trimmed_draft_pairs_and_what_spells_otherwise_is_not_kept(tmp_path: Path) -> None:
    target = make_gguf(tmp_path / "target.gguf", vocab_size=700)
    draft = make_gguf(tmp_path / "draft.gguf", vocab_size=700, changed_token=650, layers=1)
    written = read_header(trimmed(draft, [sample([649, 650, 651])], 300, target))
    ids = target_ids_of(written)
    assert ids is not None
    assert {649, 651} <= set(ids.tolist())
    assert 650 not in ids
    report = check_pair(read_header(target), written)
    assert report.reasons == ()
    assert report.masked == ()


def test_a_trimmed_draft_can_be_trimmed_again(tmp_path: Path) -> None:
    path = make_gguf(tmp_path / "model.gguf", vocab_size=700)
    once = trimmed(path, [sample([690, 695])], 400)
    once = once.replace(tmp_path / "once.gguf")
    ids = target_ids_of(read_header(trimmed(once, [sample([695])], 300, path)))
    assert ids is not None
    assert 695 in ids
    assert bool((np.diff(ids) > 0).all())


def test_coverage_is_that_of_text_which_the_choice_did_not_see(tmp_path: Path) -> None:
    header = read_header(make_gguf(tmp_path / "model.gguf", vocab_size=700))
    seen_by_both = Vocabulary(header, header, [sample([690]), sample([690])])
    seen_by_one = Vocabulary(header, header, [sample([690, 5]), sample([5, 5])])
    assert seen_by_both.coverage(300) == 1.0
    assert seen_by_one.coverage(300) == 0.75


def test_other_tokenizers_are_refused_with_the_way_out(tmp_path: Path) -> None:
    source = read_header(make_gguf(tmp_path / "in.gguf"))
    kind = KeyValue("rwkv", gguf.GGUFValueType.STRING)
    odd = read_header(rewrite(source, tmp_path / "odd.gguf", Edit({"tokenizer.ggml.model": kind})))
    with pytest.raises(SettingError, match=r"RWKV.*--no-trim"):
        check_trimmable(odd)


# -- recipe and prompts


def test_the_recipe_can_be_read_from_the_file(tmp_path: Path) -> None:
    recipe = Recipe("base", "ab" * 32, "Big 7B", "Q4_0", 32000, (3, 4, 5), 7.123456, 0.81234, 1.456)
    source = read_header(make_gguf(tmp_path / "in.gguf"))
    written = read_header(rewrite(source, tmp_path / "out.gguf", Edit(recipe.key_values)))
    shown = facts_of(written).forged
    assert shown == (
        "from base, for Big 7B, type Q4_0, tokens 32,000, layers dropped 3 to 5, "
        "step ms 7.12, acceptance 0.812, speedup 1.46"
    )
    assert written.text("edge_spec.source_sha256") == "ab" * 32


def test_the_built_in_prompts_are_many_and_varied() -> None:
    prompts = built_in_prompts()
    assert len(prompts) >= 30
    assert len({prompt[0]["content"] for prompt in prompts}) == len(prompts)


def test_a_benchmark_s_interval_is_of_the_mean_over_tokens() -> None:
    base, other, counts = [0.25] * 40, [0.75] + [0.25] * 39, [361] + [1] * 39
    assert bench_forge.weighted(base, counts) == 0.25
    assert bench_forge.weighted(other, counts) == pytest.approx(0.25 + 0.5 * 361 / 400)
    # The one answer that differs is drawn again not at all in 36% of all draws, and makes most of the others.
    low, high = bench_forge.interval(base, other, counts, 1)
    assert low == 0.0
    assert 0.5 * 361 / 400 < high < 0.5


def test_a_benchmark_s_answers_can_be_kept_and_are_only_their_target_s(tmp_path: Path) -> None:
    path, mixed = tmp_path / "answers.jsonl", Dist(np.array([3, 5]), np.array([0.1, 0.9]))
    bench_forge.write_answers(path, "ab", [Sample((1, 2), (5,), (mixed,), np.ones(9, np.float32))])
    (read,) = bench_forge.read_answers(path, "ab")
    assert (read.prompt_ids, read.token_ids) == ((1, 2), (5,))
    assert overlap(read.dists[0], mixed) == pytest.approx(1.0)
    with pytest.raises(SettingError, match="another target's"):
        bench_forge.read_answers(path, "cd")


def test_a_benchmark_s_acceptance_is_what_the_laws_share_where_the_draft_lacks_nothing() -> None:
    target, draft = TableModel(12, 1), TableModel(12, 2)
    sampler, tokens = SamplerChain(SAMPLING), [3, 1, 4, 1, 5, 9, 2, 6]
    laws = [
        [sampler(model.logits(tokens[:end]), ()) for end in range(2, len(tokens))]
        for model in (target, draft)
    ]
    answer = Sample(tuple(tokens[:2]), tuple(tokens[2:]), tuple(laws[0]), np.zeros(0, np.float32))
    cache = TableCache(draft, context_size=64, batch_size=4, num_slots=1)
    found = bench_forge.draft_along(cache, None, 12, answer, sampler)
    assert found.sampled == pytest.approx(np.mean([overlap(p, q) for p, q in zip(*laws, strict=True)]))
    assert 0 < found.sampled < 1
    assert found.rows == 1
    same = TableCache(target, context_size=64, batch_size=4, num_slots=1)
    assert bench_forge.draft_along(same, None, 12, answer, sampler).greedy == 1.0


def test_a_benchmark_counts_what_a_trimmed_draft_decodes_to_spell() -> None:
    pieces = [b"a", b"b", b"ab"]
    tokens, num_read = (2,) * 21, 1
    certain = Dist(np.array([2]), np.array([1.0]), only=2)
    answer = Sample(tokens[:num_read], tokens[num_read:], (certain,) * 20, np.zeros(0, np.float32))
    alternating = TableModel(2, 0, order=1)
    alternating._table = np.array([[-9, 9], [9, -9], [9, -9]], np.float32)  # after "a", "b", nothing
    cache = TableCache(alternating, context_size=64, batch_size=4, num_slots=1)
    lacks_two = TokenMap(3, (0, 1), pieces.__getitem__, lambda: pieces[:2])
    found = bench_forge.draft_along(cache, lacks_two, 3, answer, SamplerChain(SAMPLING))
    assert found.sampled == found.greedy == 1.0
    assert found.rows == 2  # "a" after the last "b", then "b" after that "a"


def test_layers_are_tried_on_short_texts_of_several_kinds() -> None:
    samples = [replace(sample([i, i, i]), prompt_ids=(0,) * i) for i in (9, 1, 8, 2, 7, 3, 6, 4)]
    picked = shortest(samples, 2, 2)
    assert [one.token_ids for one in picked] == [(1, 1), (3, 3)]
    assert [len(one.dists) for one in picked] == [2, 2]
    assert len(shortest(samples, 20, 5)) == len(samples)


def test_a_prompt_may_hold_any_kind_of_line_end(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"prompt": "one\u2028two\x85three"}\r\n{"prompt": "four"}\n', "utf-8")
    assert [prompt[0]["content"] for prompt in read_prompts(path)] == ["one\u2028two\x85three", "four"]


@pytest.mark.parametrize(
    "line", ["not json", "{}", '{"messages": []}', '{"prompt": 3}', '{"messages": [{}]}']
)
def test_a_line_that_is_no_prompt_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text(f'{{"prompt": "fine"}}\n\n{line}\n')
    with pytest.raises(SettingError, match=r"Line 3 of .*prompts\.jsonl"):
        read_prompts(path)
    path.write_text("\n")
    with pytest.raises(SettingError, match="has no prompts"):
        read_prompts(path)
