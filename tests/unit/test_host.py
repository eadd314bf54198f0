"""The engine host: what its parent sees of a child that answers, fails, dies or talks nonsense."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from edge_spec.config import Decoding, Sampling
from edge_spec.conversation import History
from edge_spec.errors import (
    Cancelled,
    EngineCrashedError,
    EngineError,
    ModelFileError,
    PromptTooLongError,
    UsageError,
)
from edge_spec.events import Calibrating, Event, Finished, Started, Verified
from edge_spec.host import EngineHost
from edge_spec.host import process as host_process
from edge_spec.host.child import Server
from edge_spec.host.wire import (
    ChatRequest,
    Done,
    Failed,
    Loading,
    PairSpec,
    Ready,
    TextRequest,
    read_reply,
    read_request,
    reply_line,
    request_line,
)
from edge_spec.trace import EventDecoder, encode
from tests import fake_engine

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = "import sys; sys.path.insert(0, sys.argv[1]); from tests.fake_engine import main; main()"
SAMPLING = Sampling(temperature=0.9, top_k=8, logit_bias=((3, float("-inf")),))
ENDLESS = 50_000

pytestmark = pytest.mark.skipif(os.name != "posix", reason="sends POSIX signals")


@pytest.fixture(scope="module", autouse=True)
def fake() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(host_process, "COMMAND", (sys.executable, "-P", "-c", PROGRAM, str(ROOT)))
        yield


def ask(text: str, max_tokens: int = 40) -> ChatRequest:
    return ChatRequest(({"role": "user", "content": text},), SAMPLING, Decoding(max_tokens, seed=5))


def loaded(**options: Any) -> EngineHost:
    host = EngineHost(PairSpec("tables", "draft tables", options))
    for _ in host.load():
        pass
    return host


@pytest.fixture(scope="module")
def shared() -> Iterator[EngineHost]:
    """A host for tests after which its child still lives."""
    with loaded(seconds_a_decode=0.001) as host:
        yield host


def process(host: EngineHost) -> psutil.Process:
    assert host._child is not None
    return psutil.Process(host._child.pid)


def tokens(events: list[Event]) -> list[int]:
    return [token for event in events if isinstance(event, Verified) for token in event.verdict.tokens]


def in_process(request: ChatRequest) -> list[Event]:
    pair = fake_engine.TablePair({})
    events = pair.generate(request.messages, sampling=request.sampling, decoding=request.decoding)
    return list(events)


def until_first_token(events: Generator[Event]) -> None:
    while not isinstance(next(events), Verified):
        pass


def reason(events: list[Event]) -> str:
    assert isinstance(events[-1], Finished)
    return events[-1].reason


def gone(child: psutil.Process, seconds: float = 1.0) -> bool:
    """Whether a process ends within that time; one that waits for its parent's look has ended."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if child.status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.01)
    return False


# -- what is said on the pipe


def test_requests_and_replies_come_through_the_pipe_as_they_were() -> None:
    chat = ChatRequest(
        ({"role": "user", "content": "\ud800 \u2028 é"},),
        SAMPLING,
        Decoding(seed=2**64 - 1, stop=("a", "b")),
        3,
        History(2, (1, 2, 3)),
    )
    for request in (chat, TextRequest("x", SAMPLING, Decoding()), PairSpec("t", None, {"threads": 2})):
        line = request_line(7, request)
        assert line.count("\n") == 1 and json.loads(line)["request"] == 7
        assert read_request(json.loads(line)) == request
    replies = (Ready(), Loading("draft", 0.5), fake_engine.INFO, Failed("UsageError", "No."), Done())
    for reply in replies:
        assert read_reply(json.loads(reply_line(reply))) == reply


@pytest.mark.parametrize("line", [{}, {"host": 3}, {"host": "party"}, {"host": "loading", "model": "x"}])
def test_a_reply_that_is_none_is_refused(line: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        read_reply(line)


# -- answering


def test_loading_tells_its_progress_in_steps_and_then_what_was_loaded() -> None:
    with EngineHost(PairSpec("tables", None, {})) as host:
        assert host.info is None
        told = []
        loading = host.load()
        while True:
            try:
                told.append(next(loading))
            except StopIteration as end:
                assert end.value == host.info == fake_engine.INFO
                break
    assert told[0] == Loading("target", 0.0) and told[-1] == Loading("target", 1.0)
    assert 90 < len(told) < 110  # of a thousand steps
    assert all(a.fraction < b.fraction for a, b in itertools.pairwise(told))


def test_an_answer_through_the_pipe_is_the_answer_in_process(shared: EngineHost) -> None:
    events = list(shared.generate(ask("hello")))

    def bare(events: list[Event]) -> list[dict[str, Any]]:
        return [
            {**encode(event), "timings": None}
            for event in events
            if not isinstance(event, Started | Finished)  # what is cached, and seconds
        ]

    assert bare(events) == bare(in_process(ask("hello")))
    assert len(tokens(events)) == 40
    assert all(shared.piece(token) == bytes([token]) for token in tokens(events) if token)


def test_a_raw_text_and_a_history_reach_the_pair(shared: EngineHost) -> None:
    decoding = Decoding(3, seed=5)
    started = next(shared.generate(TextRequest("ab", SAMPLING, decoding)))
    assert isinstance(started, Started) and started.prompt_ids == (97, 98)
    history = History(2, (7, 8, 9))
    started = next(shared.generate(ChatRequest(ask("c").messages, SAMPLING, decoding, 0, history)))
    assert isinstance(started, Started) and started.prompt_ids == (7, 8, 9, 99)


def test_an_error_in_the_child_is_the_same_error_here_and_the_child_goes_on(shared: EngineHost) -> None:
    child = process(shared)
    with pytest.raises(UsageError, match=r"^The prompt is empty\.$") as caught:
        list(shared.generate(ask("")))
    assert type(caught.value) is UsageError
    with pytest.raises(PromptTooLongError, match=r"^The prompt is too long\.$"):
        list(shared.generate(ask("x" * fake_engine.CONTEXT)))
    heard = []
    with pytest.raises(EngineError, match=r"^llama.cpp failed to decode 4 rows\.$") as failed:
        heard.extend(shared.generate(ask("fails")))
    assert type(failed.value) is EngineError
    assert reason(list(shared.generate(ask("hello")))) == "length"
    assert process(shared) == child


def test_native_words_on_stdout_do_no_harm(shared: EngineHost) -> None:
    assert len(tokens(list(shared.generate(ask("prints"))))) == 40


def test_a_model_that_cannot_be_loaded_is_the_same_error_and_leaves_no_child() -> None:
    host = EngineHost(PairSpec("missing", None, {}))
    for _ in range(2):
        with pytest.raises(ModelFileError, match=r"^There is no file missing\.$"):
            list(host.load())
        assert host.info is None and host._child is None
    with pytest.raises(UsageError, match="call load first"):
        next(host.generate(ask("x")))


# -- dying

DEATHS = {
    "killed": ("SIGKILL", "was ended by SIGKILL while answering, which is what happens when memory runs out"),
    "asserts": (
        "SIGABRT",
        r"was ended by SIGABRT while answering \(ggml\.c:42: GGML_ASSERT\(cells > 0\) failed\)",
    ),
    "faults": ("SIGSEGV", "was ended by SIGSEGV while answering"),
    "leaves": (None, "ended with status 0 while answering"),
    "bugs": (None, r"ended with status 1 while answering \(RuntimeError: nobody thought of this\)"),
    "breaks off": (None, "ended with status 0 while answering"),
    "spoils": (None, "said what is not understood"),
    "lists": (None, "said what is not understood"),
    "invents": (None, r"said what is not understood \(there is no event 'party'\)"),
}


def test_a_child_that_dies_or_talks_nonsense_is_told_of_and_loaded_again() -> None:
    with loaded() as host:
        for act, (signal_name, text) in DEATHS.items():
            child, heard = process(host), []
            with pytest.raises(EngineCrashedError, match=text) as caught:
                for event in host.generate(ask(act)):
                    heard.append(event)
            assert tokens(heard)
            assert caught.value.signal_name == signal_name
            assert caught.value.exit_code == 3
            assert str(caught.value).endswith("; what was said so far is kept.")
            assert host.info is None and gone(child, 0.1)
            with pytest.raises(EngineCrashedError, match=text):  # until it is loaded again
                next(host.generate(ask("hello")))
            for _ in host.load():
                pass
            assert host.info == fake_engine.INFO
            assert tokens(list(host.generate(ask(act[0]))))[:3] == tokens(in_process(ask(act[0])))[:3]


def test_the_last_words_of_a_child_are_kept() -> None:
    with loaded() as host:
        list(host.generate(ask("prints")))
        with pytest.raises(EngineCrashedError) as caught:
            list(host.generate(ask("asserts")))
    log = caught.value.log_tail
    assert log[:3] == (
        "native words",
        "python words",
        "/build/ggml/src/ggml.c:42: GGML_ASSERT(cells > 0) failed",
    )
    assert len(log) <= host_process.LOG_LINES


def test_a_crash_while_loading_and_one_while_idle_are_told_of() -> None:
    with (
        EngineHost(PairSpec("breaks", None, {})) as host,
        pytest.raises(EngineCrashedError, match="SIGABRT while loading the models"),
    ):
        list(host.load())
    with loaded() as host:
        process(host).kill()
        while host._child is not None and not host._child.has_ended:
            time.sleep(0.01)
        with pytest.raises(EngineCrashedError, match="SIGKILL while waiting"):
            list(host.generate(ask("hello")))


def test_a_program_that_is_no_engine_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    for program, text in (
        ("print('hi')", "ended with status 0"),
        ("import nothing_at_all", "ModuleNotFoundError"),
    ):
        monkeypatch.setattr(host_process, "COMMAND", (sys.executable, "-c", program))
        with pytest.raises(EngineCrashedError, match=text):
            list(EngineHost(PairSpec("t", None, {})).load())
    monkeypatch.setattr(host_process, "COMMAND", ("/no/such/program",))
    with pytest.raises(EngineError, match="cannot be started: No such file"):
        list(EngineHost(PairSpec("t", None, {})).load())


# -- stopping


def test_cancel_ends_the_running_text_soon_and_no_other(shared: EngineHost) -> None:
    shared.cancel()
    events = shared.generate(ask("hello", ENDLESS))
    until_first_token(events)
    started = time.perf_counter()
    shared.cancel()
    assert reason(list(events)) == "cancelled"
    assert time.perf_counter() - started < 0.5
    shared.cancel()
    assert reason(list(shared.generate(ask("hello")))) == "length"


def test_the_order_to_skip_a_calibration_reaches_the_pair_and_stops_no_text(shared: EngineHost) -> None:
    shared.skip_calibration()
    events = shared.generate(ask("measure first"))
    assert next(events) == Calibrating(0.5)
    shared.skip_calibration()
    assert reason(list(events)) == "length"
    assert reason(list(shared.generate(ask("hello")))) == "length"


def test_a_text_that_is_not_read_to_its_end_is_stopped_and_the_next_one_goes_on_from_it(
    shared: EngineHost,
) -> None:
    child = process(shared)
    events = shared.generate(ask("x" * 500, ENDLESS))
    until_first_token(events)
    events.close()
    assert _stands_still(child)
    following = list(shared.generate(ask("x" * 500)))
    assert isinstance(following[0], Started) and following[0].cached == 499
    assert reason(following) == "length"
    assert process(shared) == child


def test_a_text_does_not_go_on_after_another_was_started(shared: EngineHost) -> None:
    first = shared.generate(ask("hello", ENDLESS))
    until_first_token(first)
    second = shared.generate(ask("hello"))
    until_first_token(second)
    with pytest.raises(UsageError, match="another one was started"):
        next(first)
    assert reason(list(second)) == "length"


def test_a_reader_that_is_slow_can_still_cancel() -> None:
    with loaded() as host:
        events = host.generate(ask("hello", ENDLESS))
        until_first_token(events)
        child = process(host)
        _wait_for(lambda: _stands_still(child))  # the pipe is full
        host.cancel()
        rest = list(events)
        assert reason(rest) == "cancelled"
        assert len(tokens(rest)) < ENDLESS / 10
        assert reason(list(host.generate(ask("hello")))) == "length"


def test_two_threads_do_not_share_an_engine(shared: EngineHost) -> None:
    caught: list[BaseException] = []

    def intrude() -> None:
        try:
            list(shared.generate(ask("intruder")))
        except UsageError as error:
            caught.append(error)

    events = shared.generate(ask("hello", ENDLESS))
    until_first_token(events)
    with shared._turn:  # as within next(events)
        thread = threading.Thread(target=intrude)
        thread.start()
        thread.join()
    assert "another thread" in str(caught[0])
    events.close()


@pytest.mark.parametrize("doing", ["loading", "answering"])
def test_close_ends_what_another_thread_waits_for_at_once(doing: str) -> None:
    host = EngineHost(PairSpec("tables", None, {"seconds_to_load": 100 if doing == "loading" else 0}))
    caught: list[BaseException] = []
    begun = threading.Event()

    def work() -> None:
        try:
            for _ in host.load():
                begun.set()
            begun.clear()
            for event in host.generate(ask("hello", ENDLESS)):
                if isinstance(event, Verified):
                    begun.set()
        except BaseException as error:
            caught.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    assert begun.wait(30)
    if doing == "answering":
        _wait_for(lambda: host.info is not None and begun.is_set())
    child = process(host)
    started = time.perf_counter()
    host.close()
    host.close()
    thread.join(5)
    assert time.perf_counter() - started < 1
    assert [type(error) for error in caught] == [Cancelled]
    assert not child.is_running()
    with pytest.raises(UsageError, match="was closed"):
        next(host.load())


def test_a_load_that_is_given_up_leaves_no_child() -> None:
    host = EngineHost(PairSpec("tables", None, {"seconds_to_load": 100}))
    loading = host.load()
    next(loading)
    child = process(host)
    loading.close()
    assert not child.is_running() and host.info is None


def test_loading_again_ends_the_first_child() -> None:
    with loaded() as host:
        first = process(host)
        old = host.generate(ask("hello", ENDLESS))
        next(old)
        for _ in host.load():
            pass
        assert not first.is_running() and process(host).is_running()
        with pytest.raises(UsageError, match="loaded anew"):
            next(old)


# -- the parent's end

PARENT = """
import sys, time
sys.path.insert(0, sys.argv[1])
from tests.unit import test_host as t
t.host_process.COMMAND = (sys.executable, "-P", "-c", t.PROGRAM, sys.argv[1])
host = t.loaded()
events = host.generate(t.ask(sys.argv[2], t.ENDLESS))
t.until_first_token(events)
print(host._child.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("prompt", ["hello", "sleeps"], ids=["that waits to write", "that decodes"])
def test_a_child_ends_with_a_parent_that_is_killed(prompt: str) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(ROOT), prompt], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    child = psutil.Process(int(parent.stdout.readline()))
    _wait_for(lambda: _stands_still(child))
    assert child.is_running()
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert gone(child)


def test_the_child_has_a_session_of_its_own_and_ignores_ctrl_c(shared: EngineHost) -> None:
    child = process(shared)
    assert os.getsid(child.pid) == child.pid != os.getsid(0)
    events = shared.generate(ask("hello"))
    until_first_token(events)
    child.send_signal(signal.SIGINT)
    assert reason(list(events)) == "length"


# -- the child's side


class Wire:
    """A server in a thread of this process, at the other end of two pipes."""

    def __init__(self) -> None:
        source, self.down = os.pipe()
        up, sink = os.pipe()
        self.up = os.fdopen(up)
        self._ends = (source, sink)
        server = Server(fake_engine.load, source, sink, leave=lambda: None)
        self.thread = threading.Thread(target=server.run)
        self.thread.start()

    def send(self, text: str) -> None:
        os.write(self.down, text.encode())

    def hear(self) -> Generator[Any]:
        decoder = EventDecoder()
        for text in self.up:
            line = json.loads(text)
            yield read_reply(line) if "host" in line else decoder.decode(line)

    def close(self) -> None:
        os.close(self.down)
        self.thread.join(10)
        self.up.close()
        for end in self._ends:
            os.close(end)


@pytest.fixture
def wire() -> Iterator[Wire]:
    wire = Wire()
    wire.send(request_line(1, PairSpec("tables", None, {"seconds_a_decode": 0.001})))
    yield wire
    wire.close()
    assert not wire.thread.is_alive()


def finishes(wire: Wire, number: int) -> list[str]:
    found: list[str] = []
    for heard in wire.hear():
        if isinstance(heard, Finished):
            found.append(heard.reason)
        if isinstance(heard, Done) and len(found) == number:
            return found
    raise AssertionError("the pipe ended")


def test_a_cancel_that_overtakes_its_request_stops_it(wire: Wire) -> None:
    wire.send('{"cancel": 2}\n' + request_line(2, ask("hello", ENDLESS)) + request_line(3, ask("hello")))
    assert finishes(wire, 2) == ["cancelled", "length"]


def test_a_cancel_that_comes_too_late_stops_nothing_else(wire: Wire) -> None:
    wire.send(request_line(2, ask("hello")))
    assert finishes(wire, 1) == ["length"]
    wire.send('{"cancel": 2}\n' + request_line(3, ask("hello", 400)))
    assert any(isinstance(heard, Verified) for heard in wire.hear())
    wire.send('{"cancel": 2}\n')
    assert finishes(wire, 1) == ["length"]


def test_a_server_whose_parent_hangs_up_stops_in_the_middle(wire: Wire) -> None:
    wire.send(request_line(2, ask("hello", ENDLESS)))
    for heard in wire.hear():
        if isinstance(heard, Verified):
            break


def _stands_still(child: psutil.Process) -> bool:
    before = child.cpu_times()
    time.sleep(0.2)
    return child.cpu_times() == before


def _wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
