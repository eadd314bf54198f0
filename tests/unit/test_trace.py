"""A trace gives back every event as it was written."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_spec.errors import OutputError, UsageError
from edge_spec.events import (
    Alternative,
    Alternatives,
    Drafted,
    Event,
    Finished,
    Inspected,
    Notice,
    Prefilled,
    RoundTimings,
    Started,
    Verified,
)
from edge_spec.plain import from_plain, to_plain
from edge_spec.stats import Stats
from edge_spec.trace import (
    EventDecoder,
    EventEncoder,
    TraceHeader,
    TraceReader,
    TraceWriter,
    decode,
    encode,
)
from edge_spec.types import Dist, Fate, Proposal, Timers, Verdict

HEADER = TraceHeader(
    versions={"edge-spec": "0.1"},
    files={"target": {"file": "t.gguf", "sha256": "ab"}, "draft": None},
    settings={"temperature": 0.8, "logit_bias": [[3, "-inf"]]},
)

counts = st.integers(0, 2**40)
seconds = st.floats(0, 1e6)
probs = st.floats(0, 1, exclude_min=True)
tokens = st.integers(0, 200_000)
reasons = st.sampled_from(["eog", "stop", "length", "context", "cancelled"])


@st.composite
def dists(draw: st.DrawFn, token: int) -> Dist:
    ids = sorted({token, *draw(st.lists(tokens, max_size=3))})
    return Dist(np.array(ids, dtype=np.int64), np.array([draw(probs) for _ in ids]))


@st.composite
def proposals(draw: st.DrawFn) -> Proposal:
    drafted = draw(st.lists(tokens, max_size=6))
    parents = tuple(draw(st.integers(-1, node - 1)) for node in range(len(drafted)))
    drawn = tuple(draw(st.none() | dists(token)) for token in drafted)
    return Proposal(tuple(drafted), parents, drawn, draw(st.text(max_size=5)))


verdicts = st.builds(
    Verdict,
    tokens=st.lists(tokens, max_size=5).map(tuple),
    path=st.lists(st.integers(0, 5), max_size=4).map(tuple),
    fates=st.lists(st.sampled_from(Fate), max_size=5).map(tuple),
    origin=st.sampled_from(["accepted", "residual", "bonus", "plain"]),
    target_probs=st.lists(st.none() | st.floats(0, 1), max_size=5).map(tuple),
    finish=st.none() | reasons,
)
stats = st.builds(
    Stats,
    **dict.fromkeys(("prompt_tokens", "cached_tokens", "completion_tokens", "rounds", "drafted"), counts),
    accepted_by_position=st.lists(counts, max_size=3),
    judged_by_position=st.lists(counts, max_size=3),
    timers=st.builds(Timers, seconds, seconds, seconds, seconds, seconds),
    wall_s=seconds,
    state=st.sampled_from(["on", "off", "auto-off"]),
    reason=st.text(max_size=10),
)
alternatives = st.lists(st.builds(Alternative, tokens, probs), max_size=3).map(tuple)
inspected = st.lists(st.builds(Alternatives, counts, alternatives, alternatives), max_size=3).map(tuple)
timings = st.builds(RoundTimings, seconds, seconds, seconds, seconds)
events: st.SearchStrategy[Event] = st.one_of(
    st.builds(Started, counts, st.lists(tokens, max_size=5).map(tuple), counts, counts),
    st.builds(Prefilled, counts, st.sampled_from(["target", "draft"]), counts, counts, counts),
    st.builds(Drafted, counts, proposals()),
    st.builds(Verified, counts, proposals(), verdicts, timings),
    st.builds(Inspected, counts, inspected),
    st.builds(Notice, st.sampled_from(["info", "warning"]), st.text(max_size=20)),
    st.builds(Finished, counts, reasons, stats),
)


def without_dists(event: Event) -> Event:
    """The event with every distribution replaced by what a trace keeps of it."""
    match event:
        case Drafted() | Verified():
            p = event.proposal
            kept = tuple(None if d is None else d.prob(t) for t, d in zip(p.tokens, p.dists, strict=True))
            bare = Proposal(p.tokens, p.parents, kept, p.source)  # type: ignore[arg-type]
            if isinstance(event, Drafted):
                return Drafted(event.slot, bare)
            return Verified(event.slot, bare, event.verdict, event.timings)
        case _:
            return event


def piece(token: int) -> bytes:
    return [b" the", b"\xe6\xbc", b"\xa2", b"\x00\xff", "\U0001f600".encode(), b""][token % 6]


@given(events)
def test_every_event_comes_back_from_json_as_it_was(event: Event) -> None:
    line = json.loads(json.dumps(encode(event), allow_nan=False))
    back = decode(line)
    assert without_dists(back) == without_dists(event)
    assert encode(back) == line


@given(st.lists(events, max_size=8))
def test_a_trace_file_gives_back_header_events_and_the_bytes_of_every_token(
    tmp_path_factory: pytest.TempPathFactory, written: list[Event]
) -> None:
    path = tmp_path_factory.mktemp("trace") / "a.jsonl"
    with TraceWriter(path) as writer:
        writer.begin(HEADER, piece)
        for event in written:
            writer.write(event)
    with TraceReader(path) as trace:
        assert trace.header == HEADER
        assert [encode(event) for event in trace] == [encode(event) for event in written]
        for event in written:
            if isinstance(event, Verified):
                assert all(trace.piece(token) == piece(token) for token in event.verdict.tokens)
            if isinstance(event, Inspected):
                best = [one.token for row in event.rows for one in (*row.target, *row.draft)]
                assert all(trace.piece(token) == piece(token) for token in best)


def test_a_drawn_token_keeps_its_probability_and_a_deterministic_one_stays_so() -> None:
    q = Dist(np.array([4, 7]), np.array([0.25, 0.75]))
    event = Drafted(0, Proposal.chain([7, 9], [q, None], "draft"))
    assert encode(event) == {
        "event": "drafted",
        "slot": 0,
        "proposal": {"tokens": [7, 9], "parents": [-1, 0], "drawn": [0.75, None], "source": "draft"},
    }
    back = decode(encode(event))
    assert isinstance(back, Drafted)
    drawn, chosen = back.proposal.dists
    assert drawn is not None and drawn.prob(7) == 0.75 and chosen is None


def test_the_bytes_of_a_token_come_once_and_before_what_names_it() -> None:
    event = Inspected(0, (Alternatives(0, (Alternative(5, 0.5),), (Alternative(2, 0.25),)),))
    encoder, decoder = EventEncoder(piece), EventDecoder()
    pieces, line = encoder.encode(event).splitlines()
    assert json.loads(pieces) == {"pieces": {"5": "", "2": "\udca2"}}
    assert encoder.encode(event) == line + "\n"
    with pytest.raises(KeyError):
        decoder.piece(2)
    assert decoder.decode(json.loads(pieces)) is None
    assert decoder.piece(2) == b"\xa2"
    assert decoder.decode(json.loads(line)) == event


def test_tuples_of_several_types_are_read_item_by_item() -> None:
    hint = tuple[tuple[int, float], ...]
    assert from_plain(hint, to_plain(((3, float("-inf")), (4, 1.5))), "bias") == (
        (3, float("-inf")),
        (4, 1.5),
    )
    for wrong in ([[3]], [[3, 1.0, 2]], [["3", 1.0]], [3]):
        with pytest.raises(ValueError):
            from_plain(hint, wrong, "bias")


def test_infinities_in_settings_are_written_as_strings() -> None:
    assert to_plain({"bias": ((3, float("-inf")),)}) == {"bias": [[3, "-inf"]]}


def test_a_path_that_cannot_be_written_is_refused_before_anything_else(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="cannot be written: Is a directory"):
        TraceWriter(tmp_path)
    with pytest.raises(OutputError, match="No such file or directory"):
        TraceWriter(tmp_path / "none" / "a.jsonl")


def test_a_trace_that_never_began_leaves_the_disk_as_it_was(tmp_path: Path) -> None:
    fresh, old = tmp_path / "fresh", tmp_path / "old"
    old.write_text("kept")
    TraceWriter(fresh).close()
    TraceWriter(old).close()
    assert not fresh.exists()
    assert old.read_text() == "kept"


def test_a_new_trace_replaces_an_older_one(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    for text in ("a long first one" * 99, "two"):
        with TraceWriter(path) as writer:
            writer.begin(HEADER, piece)
            writer.write(Notice("info", text))
    with TraceReader(path) as trace:
        assert list(trace) == [Notice("info", "two")]


def test_a_full_disk_is_an_output_error() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    with (
        TraceWriter(Path("/dev/full")) as writer,
        pytest.raises(OutputError, match="No space left on device"),
    ):
        writer.begin(HEADER, piece)


HEAD = json.dumps(HEADER.line()) + "\n"
BAD = {
    "not JSON lines": ("GGUF\0\0", "is not an edge-spec trace: it is not JSON lines"),
    "empty": ("", "it does not begin with a trace's header"),
    "other JSON": ('{"a": 1}\n', "it does not begin with a trace's header"),
    "newer": (
        '{"trace": "edge-spec", "schema_version": 9}\n',
        "has schema version 9, but this edge-spec reads 1",
    ),
    "half a header": ('{"trace": "edge-spec", "schema_version": 1}\n', "the header is not complete"),
    "unknown event": (HEAD + '{"event": "party"}\n', "beyond line 2: there is no event 'party'"),
    "a list": (HEAD + "[]\n", "beyond line 2: it is not an object"),
    "cut off": (HEAD + '{"event": "not', "beyond line 2: it is not JSON, it is cut off"),
    "missing field": (
        HEAD + '{"event": "notice", "level": "info"}\n',
        "notice does not have the fields level, text",
    ),
    "wrong type": (HEAD + '{"event": "notice", "level": "info", "text": 3}\n', "text is 3"),
    "wrong choice": (HEAD + '{"event": "notice", "level": "loud", "text": ""}\n', "level is 'loud'"),
    "a looping tree": (
        HEAD
        + '{"event":"drafted","slot":0,"proposal":{"tokens":[1],"parents":[0],"drawn":[null],"source":""}}\n',
        "proposal has a parent that does not come before its child",
    ),
    "ragged": (
        HEAD
        + '{"event":"drafted","slot":0,"proposal":{"tokens":[1],"parents":[],"drawn":[null],"source":""}}\n',
        "proposal has 1 tokens, 0 parents and 1 drawn",
    ),
    "a huge number": (
        HEAD + f'{{"event":"drafted","slot":0,"proposal":{{"tokens":[{10**30}],"parents":[-1],'
        '"drawn":[0.5],"source":""}}\n',
        "beyond line 2: a number in it is too large",
    ),
    "bad pieces": (HEAD + '{"pieces": {"x": "y"}}\n', "beyond line 2"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_trace_is_refused_with_its_line_and_reason(tmp_path: Path, name: str) -> None:
    text, reason = BAD[name]
    path = tmp_path / "bad.jsonl"
    path.write_text(text)
    with pytest.raises(UsageError) as caught, TraceReader(path) as trace:
        list(trace)
    assert reason in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_missing_trace_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        TraceReader(tmp_path / "none")
