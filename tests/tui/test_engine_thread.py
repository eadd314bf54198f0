"""The engine's thread and its mailbox: order, batches, the last word, and what becomes of errors."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable

import pytest
from textual.message import Message

from edge_spec import (
    ChatRequest,
    Decoding,
    EngineCrashedError,
    Event,
    Finished,
    Loading,
    Notice,
    PairSpec,
    Sampling,
)
from edge_spec.errors import EngineError
from tests.tui.fake_host import SPEC, Gate, Script, plain
from tui.chat.engine import EngineThread, Mailbox
from tui.chat.messages import Crashed, EngineEvents, Failed, Loaded, LoadingProgress

OTHER = PairSpec("other.gguf", None, {})
REQUEST = ChatRequest(({"role": "user", "content": "Hi"},), Sampling(), Decoding())


class Clock:
    """Time that passes when a test says so, and calls what is due."""

    def __init__(self) -> None:
        self.now = 100.0
        self.due: list[tuple[float, Callable[[], None]]] = []

    def __call__(self) -> float:
        return self.now

    def schedule(self, delay: float, call: Callable[[], None]) -> None:
        self.due.append((self.now + delay, call))

    def pass_to(self, now: float) -> None:
        self.now = now
        ready = [call for when, call in self.due if when <= now]
        self.due = [(when, call) for when, call in self.due if when > now]
        for call in ready:
            call()


def notice(text: str) -> Notice:
    return Notice("info", text)


def heard(messages: list[Message]) -> list[list[str] | str]:
    return [
        [e.text for e in m.events if isinstance(e, Notice)]
        if isinstance(m, EngineEvents)
        else type(m).__name__
        for m in messages
    ]


@pytest.fixture
def clock() -> Clock:
    return Clock()


def mailbox(clock: Clock) -> tuple[Mailbox, list[Message]]:
    messages: list[Message] = []
    return Mailbox(messages.append, clock.schedule, 0.1, clock), messages


def test_what_is_said_after_a_quiet_time_goes_out_at_once(clock: Clock) -> None:
    box, messages = mailbox(clock)
    box.put(notice("a"))
    clock.pass_to(100.0)
    assert heard(messages) == [["a"]]


def test_what_follows_is_gathered_and_nothing_stays_behind(clock: Clock) -> None:
    box, messages = mailbox(clock)
    box.put(notice("a"))
    clock.pass_to(100.0)
    for text in "bcd":
        box.put(notice(text))
    clock.pass_to(100.09)
    assert heard(messages) == [["a"]]
    clock.pass_to(100.11)
    assert heard(messages) == [["a"], ["b", "c", "d"]]
    assert clock.due == []


def test_a_message_goes_out_between_the_events_around_it(clock: Clock) -> None:
    box, messages = mailbox(clock)
    box.put(notice("a"))
    box.put(Failed("x", EngineError("x"), None))
    box.put(notice("b"))
    clock.pass_to(101)
    assert heard(messages) == [["a"], "Failed", ["b"]]


def test_there_are_at_most_so_many_deliveries_a_second(clock: Clock) -> None:
    box, messages = mailbox(clock)
    for step in range(1000):
        box.put(notice(str(step)))
        clock.pass_to(100 + step / 1000)
    clock.pass_to(102)
    assert 10 <= len(messages) <= 11
    assert list(itertools.chain(*heard(messages))) == [str(step) for step in range(1000)]


def test_puts_of_another_thread_are_all_delivered_in_order() -> None:
    messages: list[Message] = []
    done = threading.Event()

    def schedule(delay: float, call: Callable[[], None]) -> None:
        threading.Timer(delay, call).start()

    box = Mailbox(lambda m: (messages.append(m), done.set() if "499" in str(m) else None), schedule, 0.001)
    for step in range(500):
        box.put(notice(str(step)))
    assert done.wait(5)
    assert list(itertools.chain(*heard(messages))) == [str(step) for step in range(500)]


class Listener:
    """Takes what an engine thread says, as it says it."""

    def __init__(self, script: Script) -> None:
        self.said: list[Event | Message] = []
        self._news = threading.Condition()
        self.engine = EngineThread(self, script.host)  # type: ignore[arg-type]
        self.engine.start()

    def put(self, item: Event | Message) -> None:
        with self._news:
            self.said.append(item)
            self._news.notify_all()

    def until(self, kind: type, count: int = 1) -> None:
        with self._news:
            assert self._news.wait_for(lambda: sum(isinstance(i, kind) for i in self.said) >= count, 5)

    @property
    def loaded(self) -> list[Loaded]:
        return [item for item in self.said if isinstance(item, Loaded)]

    @property
    def kinds(self) -> list[str]:
        return [type(item).__name__ for item in self.said]


@pytest.fixture
def listener(script: Script):  # type: ignore[no-untyped-def]
    one = Listener(script)
    yield one
    one.engine.close()


def test_loading_tells_its_progress_and_what_was_loaded(listener: Listener, script: Script) -> None:
    script.loads.append([Loading("target", 0.5), Loading("draft", 1.0)])
    listener.engine.load(SPEC)
    listener.until(Loaded)
    assert listener.kinds == ["LoadingProgress", "LoadingProgress", "Loaded"]
    first = listener.said[0]
    assert isinstance(first, LoadingProgress) and (first.model, first.fraction) == ("target", 0.5)


def test_an_answer_comes_event_by_event(listener: Listener, script: Script) -> None:
    script.answer(plain("a", "b"))
    listener.engine.load(SPEC)
    listener.engine.generate(REQUEST)
    listener.until(Finished)
    assert listener.kinds == ["Loaded", "Started", "Verified", "Verified", "Finished"]
    assert script.requests == [REQUEST]


@pytest.mark.parametrize(
    ("error", "kind"), [(EngineError("bad"), Failed), (EngineCrashedError("dead", "SIGKILL"), Crashed)]
)
def test_an_error_is_told_after_what_came_before_it(
    listener: Listener, script: Script, error: Exception, kind: type
) -> None:
    script.answer(plain("a"), error)
    listener.engine.load(SPEC)
    listener.engine.generate(REQUEST)
    listener.until(kind)
    assert listener.kinds == ["Loaded", "Started", "Verified", kind.__name__]
    last = listener.said[-1]
    assert isinstance(last, Failed | Crashed) and last.error is error and last.load is None


def test_a_bug_in_the_engine_is_told_and_logged(listener: Listener, script: Script, no_bugs) -> None:  # type: ignore[no-untyped-def]
    script.answer(plain("a"), ZeroDivisionError("x"))
    listener.engine.load(SPEC)
    listener.engine.generate(REQUEST)
    listener.until(Failed)
    last = listener.said[-1]
    assert isinstance(last, Failed) and last.words == "This is a bug in edge-spec: ZeroDivisionError: x."
    assert len(no_bugs) == 1
    no_bugs.clear()


def test_after_a_crash_the_same_host_loads_again(listener: Listener, script: Script) -> None:
    script.answer(EngineCrashedError("dead", "SIGABRT"))
    listener.engine.load(SPEC)
    listener.engine.generate(REQUEST)
    listener.until(Crashed)
    listener.engine.load(SPEC)
    listener.until(Loaded, 2)
    assert len(script.specs) == 1 and script.num_loads == 2 and script.num_closed == 0


def test_another_pair_closes_the_one_before_and_cancels_its_answer(
    listener: Listener, script: Script
) -> None:
    gate = Gate()
    script.answer(plain("a"), gate)
    listener.engine.load(SPEC)
    listener.engine.generate(REQUEST)
    assert gate.reached.wait(5)
    listener.engine.load(OTHER)
    listener.until(Loaded, 2)
    assert script.num_closed == 1 and [s.target for s in script.specs] == ["target.gguf", "other.gguf"]
    finished = [item for item in listener.said if isinstance(item, Finished)]
    assert [item.reason for item in finished] == ["cancelled"]


def test_another_pair_while_one_loads_is_loaded_at_once_and_alone(listener: Listener, script: Script) -> None:
    gate = Gate()
    script.loads.append([Loading("target", 0.5), gate, Loading("target", 1.0)])
    listener.engine.load(SPEC)
    assert gate.reached.wait(5)
    listener.engine.load(OTHER)
    listener.until(Loaded)
    assert listener.kinds == ["LoadingProgress", "Loaded"]
    assert [loaded.info.target_file for loaded in listener.loaded] == ["other.gguf"]
    assert [loaded.load for loaded in listener.loaded] == [listener.engine.newest_load]


def test_the_pair_that_is_being_loaded_is_loaded_once_and_the_next_time_again(
    listener: Listener, script: Script
) -> None:
    gate = Gate()
    script.loads.append([Loading("target", 0.5), gate])
    listener.engine.load(SPEC)
    assert gate.reached.wait(5)
    listener.engine.load(SPEC)
    gate.open()
    listener.until(Loaded)
    listener.engine.generate(REQUEST)
    listener.until(Finished)
    assert listener.kinds == ["LoadingProgress", "Loaded", "Started", "Verified", "Finished"]
    assert listener.loaded[-1].load == listener.engine.newest_load
    listener.engine.load(SPEC)
    assert listener.loaded[-1].load != listener.engine.newest_load
    listener.until(Loaded, 2)
    assert script.num_loads == 2 and len(script.specs) == 1


def test_back_to_the_pair_that_was_loading_first_loads_it_in_a_new_host(
    listener: Listener, script: Script
) -> None:
    gate = Gate()
    script.loads.append([gate])
    listener.engine.load(SPEC)
    assert gate.reached.wait(5)
    listener.engine.load(OTHER)
    listener.engine.load(SPEC)
    listener.until(Loaded)
    listener.engine.generate(REQUEST)
    listener.until(Finished)
    assert listener.kinds[:2] == ["Loaded", "Started"]
    assert script.specs[0] == script.specs[-1] == SPEC and len(script.specs) > 1


def test_the_end_of_a_load_that_came_too_late_is_known_as_such(listener: Listener, script: Script) -> None:
    """It may lie in the mailbox while another pair is chosen."""
    listener.engine.load(SPEC)
    listener.until(Loaded)
    assert listener.loaded[0].load == listener.engine.newest_load
    listener.engine.load(OTHER)
    assert listener.loaded[0].load != listener.engine.newest_load


@pytest.mark.parametrize("error", [EngineError("bad"), EngineCrashedError("dead", "SIGKILL")])
def test_the_error_of_a_load_that_nobody_wants_any_more_is_not_told(
    listener: Listener, script: Script, error: Exception
) -> None:
    gate = Gate(error)
    script.loads.append([Loading("target", 0.5), gate])
    listener.engine.load(SPEC)
    assert gate.reached.wait(5)
    listener.engine.load(OTHER)
    listener.until(Loaded)
    assert listener.kinds == ["LoadingProgress", "Loaded"]


def test_closing_in_an_answer_ends_the_thread_and_says_nothing_more(
    listener: Listener, script: Script
) -> None:
    gate = Gate()
    script.answer(plain("a"), gate)
    listener.engine.load(SPEC)
    listener.engine.generate(REQUEST)
    assert gate.reached.wait(5)
    count = len(listener.said)
    listener.engine.close()
    deadline = time.monotonic() + 5
    while any(thread.name == "engine" for thread in threading.enumerate()) and time.monotonic() < deadline:
        time.sleep(0.005)
    assert not any(thread.name == "engine" for thread in threading.enumerate())
    assert len(listener.said) == count and script.num_closed >= 1
