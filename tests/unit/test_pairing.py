"""The pairing rule, one difference at a time, each with the sentence a user reads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from edge_spec.errors import IncompatiblePairError
from edge_spec.models.comparison import MAX_SHOWN, TokenDifference
from edge_spec.models.header import read_header
from edge_spec.models.pairing import PairReport, check_pair, raise_if_incompatible
from tests.gguf_maker import make_gguf


def _check(folder: Path, target: dict[str, Any], draft: dict[str, Any]) -> PairReport:
    return check_pair(
        read_header(make_gguf(folder / "target.gguf", name="the target", layers=3, **target)),
        read_header(make_gguf(folder / "draft.gguf", name="the draft", **draft)),
    )


def test_the_same_vocabulary_pairs(tmp_path: Path) -> None:
    report = _check(tmp_path, {}, {})
    assert report.pairs
    assert report.verdict == "pairs"
    assert (report.reasons, report.notes, report.masked, report.differences) == ((), (), (), ())
    assert (report.target_vocab_size, report.draft_vocab_size) == (300, 300)
    raise_if_incompatible(report)


@pytest.mark.parametrize("token", [0, 4, 5, 139, 299])
def test_a_token_that_differs_is_masked_and_named_with_both_texts(tmp_path: Path, token: int) -> None:
    report = _check(tmp_path, {}, {"changed_token": token})
    assert report.pairs
    assert report.verdict == "pairs, with 1 token masked"
    assert (report.masked, report.num_differing) == ((token,), 1)
    target_text = read_header(tmp_path / "target.gguf").vocab.text(token)
    assert report.differences == (TokenDifference(token, target_text, f"changed{token}"),)


@pytest.mark.parametrize(("count", "pairs"), [(3, True), (4, False)])
def test_one_ordinary_token_in_a_hundred_may_differ(tmp_path: Path, count: int, pairs: bool) -> None:
    tokens = {"vocab_size": 360}  # 360 // 100 = 3
    target = read_header(make_gguf(tmp_path / "t.gguf", layers=3, **tokens))
    draft = read_header(make_gguf(tmp_path / "d2.gguf", **tokens))
    assert check_pair(target, draft).verdict == "pairs"
    data = (tmp_path / "d2.gguf").read_bytes()
    for text in (b"aa", b"ab", b"ac", b"ad")[:count]:
        data = data.replace(b"\x02\0\0\0\0\0\0\0" + text, b"\x02\0\0\0\0\0\0\0" + text.upper())
    (tmp_path / "d2.gguf").write_bytes(data)
    report = check_pair(target, read_header(tmp_path / "d2.gguf"))
    assert report.pairs is pairs
    assert report.num_differing == count
    if pairs:
        assert report.masked == (258, 259, 260)
    else:
        assert report.masked == ()
        assert report.reasons == (
            'Token 258 is "aa" in the target but "AA" in the draft, and 3 more tokens differ.',
        )


def test_special_tokens_may_differ_in_any_number(tmp_path: Path) -> None:
    target = {"vocab_size": 258, "padded_ids": 60}
    report = _check(tmp_path, target, {"vocab_size": 258, "padded_ids": 60, "pad_name": "other"})
    assert report.verdict == "pairs, with 60 tokens masked"
    assert report.masked == tuple(range(258, 318))
    assert report.notes == ("60 special tokens differ, which ordinary text never holds.",)
    assert report.num_differing == 60
    assert len(report.differences) == MAX_SHOWN


def test_only_the_target_says_which_tokens_are_special(tmp_path: Path) -> None:
    report = _check(tmp_path, {"vocab_size": 318}, {"vocab_size": 258, "padded_ids": 60})
    assert report.verdict == "does not pair"


@pytest.mark.parametrize("extra", [1, 128, 500])
def test_the_target_may_have_more_special_ids(tmp_path: Path, extra: int) -> None:
    report = _check(tmp_path, {"padded_ids": extra}, {})
    assert report.verdict == "pairs"
    assert report.notes == (f"The target has {extra} more token ids; those are never drafted.",)


@pytest.mark.parametrize("options", [{"padded_ids": 128}, {"padded_ids": 500}, {"vocab_size": 700}])
def test_the_draft_may_have_more_ids_of_any_kind(tmp_path: Path, options: dict[str, Any]) -> None:
    report = check_pair(
        read_header(make_gguf(tmp_path / "t.gguf", layers=9)),
        read_header(make_gguf(tmp_path / "d.gguf", layers=1, **options)),
    )
    extra = options.get("padded_ids", 400)
    assert report.pairs
    assert report.notes[0] == f"The draft has {extra} more token ids; those are never drafted."


@pytest.mark.parametrize(("size", "pairs"), [(303, True), (304, False)])
def test_one_ordinary_token_in_a_hundred_may_be_missing(tmp_path: Path, size: int, pairs: bool) -> None:
    report = _check(tmp_path, {"vocab_size": size}, {"vocab_size": 300})
    assert report.pairs is pairs
    if not pairs:
        assert report.reasons == (
            "The draft lacks 4 of the target's tokens; it has the first 300, and one in 100 may be missing.",
        )


def _trimmed(ids: Sequence[int]) -> dict[str, Any]:
    """A draft whose tokens are those of the common vocabulary with these ids."""

    def edit(writer: gguf.GGUFWriter) -> None:
        writer.add_array("edge_spec.target_ids", np.array(ids, np.int32).tolist())

    return {"vocab_size": 300, "keep": list(ids), "edit": edit}


def test_a_trimmed_draft_is_compared_at_the_ids_that_it_names(tmp_path: Path) -> None:
    ids = [0, 1, *range(2, 258), 260, 299]
    report = _check(tmp_path, {}, _trimmed(ids))
    assert report.verdict == "pairs"
    assert report.notes == (
        "The draft's vocabulary is trimmed to 260 of the target's 300 tokens; the others are never drafted.",
    )
    other = read_header(make_gguf(tmp_path / "o.gguf", layers=3, changed_token=260))
    report = check_pair(other, read_header(tmp_path / "draft.gguf"))
    assert (report.verdict, report.masked) == ("pairs, with 1 token masked", (260,))
    smaller = read_header(make_gguf(tmp_path / "s.gguf", layers=3, vocab_size=299))
    assert check_pair(smaller, read_header(tmp_path / "draft.gguf")).reasons == (
        "The draft was trimmed for a target with at least 300 tokens, and this one has 299.",
    )
    report = check_pair(read_header(tmp_path / "draft.gguf"), other)
    assert report.reasons == (
        "The target is a draft with a trimmed vocabulary, which cannot write every text.",
    )


def test_the_begin_token_of_a_trimmed_draft_is_the_target_s(tmp_path: Path) -> None:
    ids = [0, 1, *range(5, 300)]
    target = {"bos_id": 7, "add_bos": True}
    assert _check(tmp_path, target, {**_trimmed(ids), "bos_id": 4, "add_bos": True}).pairs
    assert not _check(tmp_path, target, {**_trimmed(ids), "bos_id": 7, "add_bos": True}).pairs


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        (list(range(299)), "The draft names 299 target ids for its 300 tokens."),
        ([1, 0, *range(2, 300)], "does not ascend"),
        ([0, 0, *range(2, 300)], "does not ascend"),
        ([-1, *range(1, 300)], "does not ascend"),
    ],
)
def test_a_list_of_target_ids_that_cannot_be_one_is_refused(
    tmp_path: Path, ids: list[int], words: str
) -> None:
    options = _trimmed(ids)
    del options["keep"]
    report = _check(tmp_path, {}, options)
    assert report.verdict == "does not pair"
    assert words in report.reasons[0]


def test_another_kind_of_tokenizer_is_refused(tmp_path: Path) -> None:
    report = _check(tmp_path, {}, {"tokenizer": "spm"})
    assert report.reasons == (
        "The target's tokenizer is byte-level BPE (gpt2) but the draft's is SentencePiece (llama).",
    )
    assert report.differences == ()


def test_begin_tokens_count_only_where_they_are_added(tmp_path: Path) -> None:
    assert _check(tmp_path, {"bos_id": 0}, {"bos_id": 7}).pairs
    report = _check(tmp_path, {"bos_id": 0, "add_bos": True}, {"bos_id": 7, "add_bos": True})
    assert report.reasons == ("The begin-of-text token is token 0 in the target but token 7 in the draft.",)
    report = _check(tmp_path, {"add_bos": True}, {})
    assert report.reasons == (
        "The target adds its begin-of-text token to every text but the draft does not.",
    )


def test_end_tokens_only_make_a_note(tmp_path: Path) -> None:
    report = _check(tmp_path, {"eos_id": 1}, {"eos_id": 7})
    assert report.verdict == "pairs"
    letter = read_header(tmp_path / "draft.gguf").vocab.text(7)
    assert report.notes == (
        f'The tokens that end an answer differ ("{letter}" only in the draft), '
        "so the draft may miss its end.",
    )
    report = _check(tmp_path, {"add_eos": True}, {})
    assert report.notes == (
        "Only one of them adds an end-of-text token to prompts; the target's rule is used.",
    )


def test_what_is_worth_knowing_is_noted(tmp_path: Path) -> None:
    report = check_pair(
        read_header(make_gguf(tmp_path / "t.gguf", context=512)),
        read_header(make_gguf(tmp_path / "d.gguf", pre="qwen2", context=128, layers=3, chat_template="x")),
    )
    assert report.pairs
    assert report.verdict == "use a draft-free drafter instead"
    assert report.notes == (
        'The pre-tokenizers differ ("gpt-2" and "qwen2"); only the target\'s is used, '
        "so the draft may guess less well.",
        "The chat templates differ; only the target's is used.",
        "The draft was trained for 128 tokens of context and the target for 512; "
        "beyond the draft's, its guesses get worse.",
        "The draft reads no fewer bytes a token than the target, so drafting will hardly pay.",
    )


def test_memory_that_cannot_be_trimmed_is_noted(tmp_path: Path) -> None:
    report = _check(tmp_path, {}, {"architecture": "mamba", "layers": 1, "width": 8})
    assert report.pairs
    assert report.notes == (
        "The draft's memory is recurrent, which cannot be trimmed: its state is saved before each guess "
        "and accepted tokens are read again, so rejections cost more.",
    )


def test_the_error_names_both_models_the_reason_and_the_way_out(tmp_path: Path) -> None:
    report = _check(tmp_path, {"vocab_size": 400}, {"vocab_size": 250, "padded_ids": 50})
    with pytest.raises(IncompatiblePairError) as caught:
        raise_if_incompatible(report)
    assert str(caught.value) == (
        '"the draft" cannot draft for "the target": token 250 is '
        f'"{read_header(tmp_path / "target.gguf").vocab.text(250)}" in the target but "<pad0>" in the draft, '
        "and 49 more tokens differ. (1 more in `edge-spec check`.) "
        "Choose a draft from the target's own family, or a draft-free drafter."
    )


def test_control_characters_of_tokens_are_escaped(tmp_path: Path) -> None:
    path = make_gguf(tmp_path / "d.gguf", vocab_size=310)
    data = path.read_bytes()
    for number in range(4):
        text = b"a" + bytes((ord("a") + number,))
        data = data.replace(b"\x02\0\0\0\0\0\0\0" + text, b"\x02\0\0\0\0\0\0\0\x1b" + text[1:])
    path.write_bytes(data)
    target = read_header(make_gguf(tmp_path / "t.gguf", layers=3, vocab_size=310))
    assert check_pair(target, read_header(path)).reasons == (
        'Token 258 is "aa" in the target but "\\u001ba" in the draft, and 3 more tokens differ.',
    )
