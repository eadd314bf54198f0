"""Streamed text knows which characters were drafted, and cannot steer a terminal."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_spec.cli.render import AnswerPrinter, AnswerText, Span
from edge_spec.terminal import harmless
from edge_spec.text import TextStream

PIECES = [b"a", b"b", b"ab", b"\xf0\x9f", b"\x98\x80", b"\xe9", b"", b"c d"]
tokens = st.lists(st.integers(0, len(PIECES) - 1), max_size=20)


@given(tokens, st.lists(st.sampled_from(["ab", "c", "ba", "\U0001f600a"]), max_size=2), st.data())
def test_spans_are_the_stream_cut_into_runs_by_origin(
    ids: list[int], stop: list[str], data: st.DataObject
) -> None:
    origins = [data.draw(st.sampled_from(["accepted", "residual"])) for _ in ids]
    answer = AnswerText(PIECES.__getitem__, stop)
    spans = answer.push(ids, origins) + answer.flush()
    stream = TextStream(PIECES.__getitem__, stop)
    expected = "".join(stream.push(i) for i in ids) + stream.flush()
    assert "".join(span.text for span in spans) == expected == answer.text
    assert all(span.text for span in spans)
    if set(origins) <= {"accepted"} and not expected.endswith("\ufffd"):
        assert all(span.accepted for span in spans)


def test_a_character_belongs_to_the_token_that_completes_it() -> None:
    answer = AnswerText(PIECES.__getitem__, [])
    assert answer.push([0, 3, 4, 1], ["accepted", "accepted", "residual", "residual"]) == [
        Span("a", True),
        Span("\U0001f600b", False),
    ]


def test_text_held_back_for_a_stop_string_keeps_its_owners() -> None:
    answer = AnswerText([b"x", b"E", b"N", b"q"].__getitem__, ["END"])
    assert answer.push([0, 1], ["accepted", "accepted"]) == [Span("x", True)]
    assert answer.push([2], ["bonus"]) == []
    assert answer.push([3], ["plain"]) == [Span("E", True), Span("Nq", False)]


def test_control_characters_are_shown_not_obeyed() -> None:
    assert harmless("a\x1b[31mb\x07\r\n\tc\x7f\x9b") == "a␛[31mb␇␍\n\tc␡\ufffd"


@given(st.text(max_size=30))
def test_other_text_is_left_alone(text: str) -> None:
    shown = harmless(text)
    assert len(shown) == len(text)
    for old, new in itertools.zip_longest(text, shown):
        assert new == old or ord(old) < 32 or 0x7F <= ord(old) < 0xA0


def test_accepted_spans_are_underlined_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    printer = AnswerPrinter(styled=True, is_terminal=True)
    printer.write([Span("one ", True), Span("t\x1bwo", False)])
    printer.end()
    assert capsys.readouterr().out == "\x1b[4mone \x1b[24mt␛wo\n"


def test_a_pipe_gets_the_bare_text_and_one_line_end(capsys: pytest.CaptureFixture[str]) -> None:
    printer = AnswerPrinter.for_stdout(plain=False)
    printer.write([Span("one\x1b", True), Span("two\n", False)])
    printer.end()
    assert capsys.readouterr().out == "one\x1btwo\n"


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb"), ("TERM", "xterm")])
def test_no_color_dumb_terminals_and_plain_mean_plain_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, value: str
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv(name, value)
    AnswerPrinter.for_stdout(plain=value == "xterm").write([Span("one\x1b", True)])
    assert capsys.readouterr().out == "one␛"
