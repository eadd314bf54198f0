"""The pairing rule, one difference at a time, each with the sentence a user reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edge_spec.errors import IncompatiblePairError
from edge_spec.models.header import read_header
from edge_spec.models.pairing import PairReport, TokenDifference, check_pair, raise_if_incompatible
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
    assert (report.reasons, report.notes, report.difference) == ((), (), None)
    assert (report.target_vocab_size, report.draft_vocab_size) == (300, 300)
    raise_if_incompatible(report)


def test_a_differing_token_is_named_with_both_texts(tmp_path: Path) -> None:
    report = _check(tmp_path, {}, {"changed_token": 139})
    assert report.verdict == "does not pair"
    target_text = read_header(tmp_path / "target.gguf").vocab.text(139)
    assert report.difference == TokenDifference(139, target_text, "changed139", 1)
    assert report.reasons == (f'Token 139 is "{target_text}" in the target but "changed139" in the draft.',)


def test_the_number_of_differing_tokens_is_told(tmp_path: Path) -> None:
    report = _check(
        tmp_path, {"tokenizer": "spm", "vocab_size": 320}, {"tokenizer": "spm", "vocab_size": 300}
    )
    assert report.pairs
    longer = _check(tmp_path, {"vocab_size": 300}, {"vocab_size": 250, "padded_ids": 50})
    assert longer.difference is not None
    assert (longer.difference.token, longer.difference.count) == (250, 50)
    assert longer.reasons[0].endswith('but "<pad0>" in the draft, and 49 more tokens differ.')


@pytest.mark.parametrize(("token", "pairs"), [(0, True), (4, True), (5, False), (299, False)])
def test_only_ids_from_5_up_are_compared(tmp_path: Path, token: int, pairs: bool) -> None:
    report = _check(tmp_path, {}, {"changed_token": token})
    assert report.pairs is pairs
    if pairs:
        assert report.notes == ("1 of the first 5 tokens differ, which the rule allows.",)


@pytest.mark.parametrize(("extra", "pairs"), [(1, True), (128, True), (129, False)])
@pytest.mark.parametrize("role", ["target", "draft"])
def test_sizes_may_differ_by_128(tmp_path: Path, role: str, extra: int, pairs: bool) -> None:
    longer: dict[str, Any] = {"padded_ids": extra}
    report = _check(tmp_path, longer if role == "target" else {}, longer if role == "draft" else {})
    assert report.pairs is pairs
    if pairs:
        assert report.notes == (f"The {role} has {extra} more token ids; those are never drafted.",)
    else:
        sizes = ("429", "300") if role == "target" else ("300", "429")
        assert report.reasons == (
            f"The target has {sizes[0]} tokens but the draft has {sizes[1]}; they may differ by 128 at most.",
        )


def test_another_kind_of_tokenizer_is_refused(tmp_path: Path) -> None:
    report = _check(tmp_path, {}, {"tokenizer": "spm"})
    assert report.reasons == (
        "The target's tokenizer is byte-level BPE (gpt2) but the draft's is SentencePiece (llama).",
    )
    assert report.difference is None


def test_begin_tokens_count_only_where_they_are_added(tmp_path: Path) -> None:
    assert _check(tmp_path, {"bos_id": 0}, {"bos_id": 7}).pairs
    report = _check(tmp_path, {"bos_id": 0, "add_bos": True}, {"bos_id": 7, "add_bos": True})
    assert report.reasons == ("The begin-of-text token is token 0 in the target but token 7 in the draft.",)
    report = _check(tmp_path, {"add_bos": True}, {})
    assert report.reasons == (
        "The target adds its begin-of-text token to every text but the draft does not.",
    )


def test_end_tokens_count_only_where_they_are_added(tmp_path: Path) -> None:
    report = _check(tmp_path, {"eos_id": 1}, {"eos_id": 7})
    assert report.pairs
    assert report.notes == ("The end-of-text tokens differ, so the draft may miss the end of an answer.",)
    report = _check(tmp_path, {"eos_id": 1, "add_eos": True}, {"eos_id": 7, "add_eos": True})
    assert report.reasons == ("The end-of-text token is token 1 in the target but token 7 in the draft.",)
    report = _check(tmp_path, {}, {"add_eos": True})
    assert report.reasons == ("The draft adds its end-of-text token to every text but the target does not.",)


def test_what_is_worth_knowing_is_noted(tmp_path: Path) -> None:
    report = check_pair(
        read_header(make_gguf(tmp_path / "t.gguf", context=512)),
        read_header(make_gguf(tmp_path / "d.gguf", pre="qwen2", context=128, layers=3, chat_template="x")),
    )
    assert report.pairs
    assert report.notes == (
        'The pre-tokenizers differ ("gpt-2" and "qwen2"); only the target\'s is used, '
        "so the draft may guess less well.",
        "The chat templates differ; only the target's is used.",
        "The draft was trained for 128 tokens of context and the target for 512; "
        "beyond the draft's, its guesses get worse.",
        "The draft is no smaller than the target, so drafting will hardly pay.",
    )


def test_the_error_names_both_models_the_reason_and_the_way_out(tmp_path: Path) -> None:
    report = _check(tmp_path, {}, {"padded_ids": 200, "changed_token": 9})
    with pytest.raises(IncompatiblePairError) as caught:
        raise_if_incompatible(report)
    assert str(caught.value) == (
        '"the draft" cannot draft for "the target": the target has 300 tokens but the draft has 500; '
        "they may differ by 128 at most. (1 more in `edge-spec check`.) "
        "Choose a draft from the target's own family, or run without one."
    )


def test_control_characters_of_tokens_are_escaped(tmp_path: Path) -> None:
    path = make_gguf(tmp_path / "d.gguf")
    path.write_bytes(path.read_bytes().replace(b"\x02\0\0\0\0\0\0\0aa", b"\x02\0\0\0\0\0\0\0\x1b\n"))
    report = check_pair(read_header(make_gguf(tmp_path / "t.gguf", layers=3)), read_header(path))
    assert report.reasons == ('Token 258 is "aa" in the target but "\\u001b\\n" in the draft.',)
