"""Text never depends on where tokens end, and stop strings are cut exactly."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from edge_spec.text import Detokenizer, StopFilter, StopStrings, TextStream

Pieces = list[bytes]


def split(data: bytes, cuts: list[int]) -> Pieces:
    """Cut `data` at the given places (taken modulo its length)."""
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[a:b] for a, b in itertools.pairwise(edges)]


def first_cut(text: str, stop: list[str]) -> str:
    """The definition: read character by character until a stop string is complete."""
    for end in range(1, len(text) + 1):
        done = [s for s in stop if text[:end].endswith(s)]
        if done:
            return text[: end - max(map(len, done))]
    return text


def stream(pieces: Pieces, stop: list[str]) -> list[str]:
    out = TextStream(pieces.__getitem__, stop)
    return [*(out.push(i) for i in range(len(pieces))), out.flush()]


cuts = st.lists(st.integers(0, 200), max_size=40)
texts = st.one_of(st.text(max_size=40), st.text("ab\u00e9\u6f22\U0001f600", max_size=40))
small = st.text("ab\u00e9\U0001f600", max_size=30)
stops = st.lists(st.text("ab\u00e9\U0001f600", min_size=1, max_size=5), max_size=4)


@given(st.binary(max_size=60), cuts)
def test_detokenised_bytes_equal_the_whole_decoded_at_once(data: bytes, where: list[int]) -> None:
    pieces = split(data, where)
    d = Detokenizer(pieces.__getitem__)
    out = "".join(d.push(i) for i in range(len(pieces))) + d.flush()
    assert out == data.decode(errors="replace")


@given(texts, cuts)
def test_only_complete_characters_are_shown(text: str, where: list[int]) -> None:
    pieces = split(text.encode(), where)
    d = Detokenizer(pieces.__getitem__)
    shown = [d.push(i) for i in range(len(pieces))]
    assert "".join(shown) == text
    assert d.flush() == ""


@given(small, stops, cuts)
def test_a_stream_is_the_text_cut_before_its_first_stop_string(
    text: str, stop: list[str], where: list[int]
) -> None:
    assert "".join(stream(split(text.encode(), where), stop)) == first_cut(text, stop)


@given(st.binary(max_size=40), st.lists(st.text("a\ufffd\u00e9", min_size=1, max_size=3), max_size=3), cuts)
def test_stop_strings_work_in_bytes_that_are_no_utf8(data: bytes, stop: list[str], where: list[int]) -> None:
    expected = first_cut(data.decode(errors="replace"), stop)
    assert "".join(stream(split(data, where), stop)) == expected


@given(small, stops, cuts)
def test_what_is_shown_stays_right_however_the_text_goes_on(
    text: str, stop: list[str], where: list[int]
) -> None:
    pieces = split(text.encode(), where)
    endings = ["", *(s[n:] for s in stop for n in range(len(s)))]
    shown = ""
    for count, part in enumerate(stream(pieces, stop)[:-1], 1):
        shown += part
        seen = b"".join(pieces[:count]).decode(errors="ignore")
        assert all(first_cut(seen + ending, stop).startswith(shown) for ending in endings)
        held = first_cut(seen, stop)[len(shown) :]
        assert not held or any(s.startswith(held) and s != held for s in stop)


@given(small, stops, cuts, st.integers(1, 5))
def test_the_token_that_completes_a_stop_string_is_found_in_any_rounds(
    text: str, stop: list[str], where: list[int], round_size: int
) -> None:
    pieces = split(text.encode(), where)
    expected = None
    for count in range(1, len(pieces) + 1):
        seen = b"".join(pieces[:count]).decode(errors="ignore")
        if any(s in seen for s in stop):
            expected = count
            break
    watcher = StopStrings(pieces.__getitem__, stop)
    got, done = None, 0
    while got is None and done < len(pieces):
        chunk = range(done, min(done + round_size, len(pieces)))
        count = watcher.push(chunk)
        got = None if count is None else done + count
        done += len(chunk)
    assert got == expected
    assert (watcher.matched is None) == (expected is None)


def test_the_stop_string_complete_first_wins_and_of_those_the_longest() -> None:
    assert "".join(stream([b"xabcd"], ["abcd", "bc"])) == "xa"
    assert "".join(stream([b"xab", b"c"], ["bc", "abc"])) == "x"
    stream_ = TextStream([b"xab", b"c"].__getitem__, ["bc", "abc"])
    assert [stream_.push(0), stream_.push(1), stream_.flush()] == ["x", "", ""]
    assert stream_.matched == "abc"


def test_nothing_is_shown_after_a_stop_string() -> None:
    assert stream([b"one", b"#", b"two"], ["#"]) == ["one", "", "", ""]


def test_an_almost_stop_string_is_released_as_soon_as_it_cannot_be_one() -> None:
    out = StopFilter(["END"])
    assert [out.push("xE"), out.push("N"), out.push("q"), out.push("EN"), out.flush()] == [
        "x",
        "",
        "ENq",
        "",
        "EN",
    ]


def test_a_character_split_over_three_tokens_comes_with_the_last() -> None:
    assert stream([b"\xe6", b"\xbc", b"\xa2!"], []) == ["", "", "漢!", ""]


def test_without_stop_strings_no_piece_is_asked_for() -> None:
    def no_piece(token: int) -> bytes:
        raise AssertionError(token)

    assert StopStrings(no_piece, ()).push([1, 2, 3]) is None


def test_a_stop_string_inside_a_round_counts_the_tokens_up_to_it() -> None:
    pieces = [b"a", b"\n", b"\nb", b"c"]
    watcher = StopStrings(pieces.__getitem__, ["\n\n"])
    assert watcher.push([0, 1]) is None
    assert watcher.push([2, 3]) == 1
