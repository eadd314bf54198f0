"""The engine host with a real model in its child: crashes, cancels, memory of what was said."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

import edge_spec
from edge_spec import (
    ChatRequest,
    Decoding,
    EngineCrashedError,
    EngineHost,
    Finished,
    History,
    Inspected,
    PairSpec,
    Prefilled,
    Sampling,
    Started,
    Verified,
)
from tests.unit.test_host import gone

ROOT = Path(__file__).resolve().parents[2]
WILD = Sampling(temperature=1.5, logit_bias=((2, float("-inf")),))
"""Likely to split words otherwise than the tokenizer does, and without an end token."""
SEA = {"role": "user", "content": "Tell me about the sea."}
LONG = {"role": "user", "content": "The sea is wide and the sky is high. " * 200}

pytestmark = [
    pytest.mark.gguf,
    pytest.mark.skipif(os.name != "posix", reason="sends POSIX signals"),
]


def loaded(path: Path) -> EngineHost:
    host = EngineHost(PairSpec(str(path), str(path), {"context_size": 4096}))
    for _ in host.load():
        pass
    return host


@pytest.fixture(scope="module")
def host(tiny_path: Path) -> Iterator[EngineHost]:
    with loaded(tiny_path) as host:
        yield host


@pytest.fixture(scope="module")
def pair(tiny_path: Path) -> Iterator[edge_spec.Pair]:
    with edge_spec.load_pair(tiny_path, tiny_path, context_size=4096) as pair:
        yield pair


def ask(*messages, n=24, seed=3, inspect=0, history=None) -> ChatRequest:
    return ChatRequest(messages, WILD, Decoding(max_tokens=n, seed=seed, draft_max=3), inspect, history)


def tokens(events):
    return [token for event in events if isinstance(event, Verified) for token in event.verdict.tokens]


def start(events) -> Started:
    return next(event for event in events if isinstance(event, Started))


def until(events, kind):
    """The events up to the first of that kind."""
    seen = []
    for event in events:
        seen.append(event)
        if isinstance(event, kind):
            return seen
    raise AssertionError(f"no {kind.__name__} came")


def spoken(host, events, *messages) -> tuple[tuple, History]:
    """The conversation with the answer that `events` are, and its ids."""
    text = b"".join(host.piece(token) for token in tokens(events)).decode()
    said = (*messages, {"role": "assistant", "content": text})
    return said, History(len(said), (*start(events).prompt_ids, *tokens(events)))


def test_seeded_text_is_the_same_here_and_in_a_child_inspected_or_not(host, pair):
    request = ask(SEA, inspect=5)
    plain = list(pair.generate([SEA], sampling=WILD, decoding=request.decoding))
    watched = list(pair.generate([SEA], sampling=WILD, decoding=request.decoding, inspect=5))
    isolated = list(host.generate(request))
    verdicts = [
        [e.verdict for e in events if isinstance(e, Verified)] for events in (plain, watched, isolated)
    ]
    assert verdicts[0] == verdicts[1] == verdicts[2]
    assert not any(isinstance(event, Inspected) for event in plain)
    for events in (watched, isolated):
        after = [type(b) for a, b in itertools.pairwise(events) if isinstance(a, Verified)]
        assert set(after) == {Inspected}
    told = [event for event in isolated if isinstance(event, Inspected)]
    rows = [row for event in told for row in event.rows]
    assert len(rows) == 24
    assert all(len(row.target) == 5 for row in rows) and any(len(row.draft) == 5 for row in rows)
    # A model that is its own draft thinks the same of a token, but for the width of a decode.
    assert all(
        row.draft[0].token == row.target[0].token and abs(row.draft[0].prob - row.target[0].prob) < 0.05
        for row in rows
        if row.draft
    )
    assert all(host.piece(one.token) == pair.piece(one.token) for row in rows for one in row.target)


def test_what_was_loaded_is_told(host, tiny_path):
    info = host.info
    assert (info.target_name, info.draft_name) == ("smollm2-135M", "smollm2-135M")
    assert (info.target_quantization, info.target_file) == ("Q4_1", str(tiny_path))
    assert info.context_size == 4096
    assert info.header.files["target"]["file"] == str(tiny_path)
    assert info.header.versions["llama-cpp-python"]
    assert info.header.settings == {
        "model": str(tiny_path),
        "draft_model": str(tiny_path),
        "context_size": 4096,
    }


def test_after_a_cancel_while_decoding_the_next_turn_reads_only_what_is_new(host):
    events = host.generate(ask(SEA, n=2000))
    seen = until(events, Verified)
    pressed = time.perf_counter()
    host.cancel()
    seen += events
    assert time.perf_counter() - pressed < 1
    assert seen[-1].reason == "cancelled" and 0 < len(tokens(seen)) < 2000
    said, history = spoken(host, seen, SEA)
    again = start(host.generate(ask(*said, {"role": "user", "content": "Go on."}, n=4)))
    assert again.prompt_ids[: len(history.ids)] == history.ids
    assert again.cached == len(history.ids) - 1


def test_a_cancel_while_reading_keeps_what_was_read(host):
    events = host.generate(ask(LONG))
    seen = until(events, Prefilled)
    pressed = time.perf_counter()
    host.cancel()
    seen += events
    assert time.perf_counter() - pressed < 1
    assert seen[-1].reason == "cancelled" and not tokens(seen)
    read = [event.done for event in seen if isinstance(event, Prefilled)]
    assert 0 < read[-1] < len(start(seen).prompt_ids)
    again = host.generate(ask(LONG))
    assert start(again).cached == read[-1]
    again.close()


def test_after_a_crash_it_is_loaded_again_and_answers(tiny_path):
    with loaded(tiny_path) as host:
        for number in (signal.SIGKILL, signal.SIGABRT):
            events = host.generate(ask(SEA, n=2000))
            seen = until(events, Verified)
            os.kill(host._child.pid, number)
            with pytest.raises(EngineCrashedError, match=number.name) as caught:
                seen += events
            assert caught.value.signal_name == number.name
            assert host.info is None
            for _ in host.load():
                pass
            again = list(host.generate(ask(SEA, n=8)))
            assert tokens(again)[:1] == tokens(seen)[:1] and again[-1].reason == "length"


def test_a_conversation_of_another_process_goes_on_with_the_ids_that_were_said(host, pair):
    answer = "The sea is deep."
    letters = [
        token
        for letter in answer
        for token in pair.target.model.tokenize(letter, add_special=False, parse_special=False)
    ]
    said = (SEA, {"role": "assistant", "content": answer})
    following = (*said, {"role": "user", "content": "Go on <|im_end|>."})
    history = History(2, (*pair.encode([SEA]), *letters))
    forgetful = start(host.generate(ask(*following, n=1))).prompt_ids
    strange = History(2, (*history.ids[:-1], history.ids[-1] ^ 1))
    assert start(host.generate(ask(*following, n=1, history=strange))).prompt_ids == forgetful
    events = list(host.generate(ask(*following, n=4, history=history)))
    ids = start(events).prompt_ids
    assert ids[: len(history.ids)] == history.ids
    assert ids[len(history.ids) :] == forgetful[-(len(ids) - len(history.ids)) :]
    third, grown = spoken(host, events, *following)
    again = start(host.generate(ask(*third, SEA, n=1, history=grown)))
    assert again.prompt_ids[: len(grown.ids)] == grown.ids
    assert again.cached == len(grown.ids) - 1


NOISY = """
import os, sys, threading, time
sys.path.insert(0, sys.argv[1])
from edge_spec.host.child import main
def chatter():
    while True:
        os.write(1, b"native noise\\n")
        time.sleep(0.0005)
threading.Timer(0.5, chatter).start()
main()
"""


def test_noise_on_stdout_does_not_reach_the_parent(tiny_path, host, monkeypatch):
    expected = tokens(list(host.generate(ask(SEA))))
    monkeypatch.setattr("edge_spec.host.process.COMMAND", (sys.executable, "-P", "-c", NOISY, str(ROOT)))
    with loaded(tiny_path) as noisy:
        assert tokens(list(noisy.generate(ask(SEA)))) == expected
        os.kill(noisy._child.pid, signal.SIGKILL)
        with pytest.raises(EngineCrashedError) as caught:
            list(noisy.generate(ask(SEA)))
        assert "native noise" in caught.value.log_tail


PARENT = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from tests.gguf import test_host as t
host = t.loaded(Path(sys.argv[2]))
print(host._child.pid, flush=True)
for event in host.generate(t.ask(t.LONG, n=2000)):
    print("event", flush=True)
"""


def test_the_child_of_a_killed_parent_ends_in_the_middle_of_a_decode(tiny_path):
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(ROOT), str(tiny_path)], stdout=subprocess.PIPE, cwd=ROOT
    )
    assert parent.stdout is not None
    child = psutil.Process(int(parent.stdout.readline()))
    assert parent.stdout.readline() == b"event\n"  # Started: hundreds of rows are being decoded now
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert gone(child, 1)


def test_run_isolated_prints_what_run_prints(tiny_path, tmp_path):
    def run(*args):
        kept = {name: value for name, value in os.environ.items() if not name.startswith("EDGE_SPEC_")}
        folders = {name: str(tmp_path / name) for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME")}
        return subprocess.run(
            [sys.executable, "-m", "edge_spec.cli", "run", "Name three colours.", "-m", tiny_path,
             "-md", tiny_path, "-n", "16", "--seed", "4", "-c", "512", "-k", "3", *args],
            capture_output=True, text=True, timeout=300, cwd=tmp_path,
            env={**kept, **folders, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip

    plain, isolated = run(), run("--isolate")
    assert (isolated.returncode, isolated.stdout) == (0, plain.stdout)
    assert plain.stdout.strip() and isolated.stderr.startswith("[")


def test_finished_is_the_last_event_of_an_isolated_text(host):
    events = list(host.generate(ask(SEA, n=5)))
    assert isinstance(events[-1], Finished) and events[-1].stats.completion_tokens == 5
