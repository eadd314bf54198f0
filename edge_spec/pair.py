"""A loaded pair: give it prompts, get events, an answer, or text."""

from __future__ import annotations

import contextlib
import operator
import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, TypedDict, Unpack

from edge_spec.cancel import Cancel
from edge_spec.config import Decoding, Sampling
from edge_spec.conversation import ChatEncoder, EncodedChat, History
from edge_spec.drafters import TokenMap
from edge_spec.drafters.table import Parts, Wanted, make_engine
from edge_spec.errors import PromptTooLongError, SettingError, UsageError
from edge_spec.events import Event, Finished, Inspected, Notice, Verified
from edge_spec.inspecting import Inspector
from edge_spec.planner.calibrator import Calibrator
from edge_spec.sampling import SamplerChain
from edge_spec.stats import Stats
from edge_spec.text import StopStrings, TextStream
from edge_spec.types import FinishReason, Message, Slot
from edge_spec.verify import make_coupling

if TYPE_CHECKING:
    from edge_spec.api import LoadedModel

Prompt = str | Sequence[Message] | Sequence[int]
"""A user's text, a conversation, or token ids."""


class Options(TypedDict, total=False):
    """What may be said about one generation; see `Pair.generate`."""

    system: str | None
    sampling: Sampling | None
    decoding: Decoding | None
    raw: bool
    reuse_cache: bool
    inspect: int
    history: History | None


_STEADY = Notice(
    "info",
    "Here the target computes a single row in another way than several, so each plain row is decoded "
    "beside one that is thrown away: the text does not depend on K then (--reproducible off saves the row).",
)

_NO_DRAFT = Notice(
    "warning",
    "Drafting was asked for, but there is no draft model, so the target decodes plainly: name one with -md, "
    "or choose --drafter ngram or auto, which need none.",
)


@dataclass(frozen=True, slots=True)
class Answer:
    """One finished text: without stop string and special tokens, its ids, why it ended."""

    text: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason
    stats: Stats


class Pair:
    """A target and perhaps a draft model, loaded; use it as a context manager.

    One text is generated at a time, from one thread; `cancel` may be called from any thread or
    signal handler.
    """

    def __init__(
        self,
        target: LoadedModel,
        draft: LoadedModel | None,
        cancel: Cancel,
        notices: Sequence[Notice],
        token_map: TokenMap | None = None,
    ) -> None:
        self.target = target
        self.draft = draft
        self.notices = tuple(notices)
        self._cancel = cancel
        self._parts = Parts(target, draft, token_map)
        self._chats = ChatEncoder(target.model)
        self._lock = threading.RLock()
        self._closed = False
        self._num_started = 0
        self._calibrator = Calibrator(target, draft, cancel)
        self._told: set[Notice] = set()

    # -- generating

    def generate(
        self,
        prompt: Prompt,
        *,
        system: str | None = None,
        sampling: Sampling | None = None,
        decoding: Decoding | None = None,
        raw: bool = False,
        reuse_cache: bool = True,
        inspect: int = 0,
        history: History | None = None,
    ) -> Generator[Event]:
        """Generate one text, as events.

        `raw` gives a text to the model without a chat template, special-token text parsed.
        `reuse_cache` False forgets what both models have read before. `inspect` is how many
        alternatives Inspected events tell for each token; 0 is none. `history` gives the ids of
        the conversation's beginning, where another process generated it; ids that are not those
        of the messages are not used. Raises PromptTooLongError, SettingError and UsageError
        before anything is decoded.
        """
        chat = self._encode(prompt, system, raw, history)
        events = self.generate_many(
            [chat.ids], sampling=sampling, decoding=decoding, reuse_cache=reuse_cache, inspect=inspect
        )
        return self._remembering(chat, events) if chat.text else events

    def generate_many(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        sampling: Sampling | None = None,
        decoding: Decoding | None = None,
        reuse_cache: bool = True,
        inspect: int = 0,
    ) -> Generator[Event]:
        """Generate several texts at once from token ids, one decode for all of them a round.

        Needs a pair loaded with at least that many slots. Text i is drawn with slot key i.
        """
        self._check_open()
        sampling, decoding = sampling or Sampling(), decoding or Decoding()
        if not prompts:
            raise UsageError("There is no prompt to generate from; give at least one.")
        if len(prompts) > self.target.settings.num_slots:
            raise SettingError(
                f"{len(prompts)} texts at once need a pair loaded with num_slots={len(prompts)} "
                f"(it has {self.target.settings.num_slots})."
            )
        slots = [self._slot(seq, ids, sampling, decoding) for seq, ids in enumerate(prompts)]
        if inspect == 0:
            return self._run(slots, decoding, reuse_cache)
        inspectors = [Inspector(slot, inspect) for slot in slots]
        return _inspecting(self._run(slots, decoding, reuse_cache), inspectors)

    def answer(self, prompt: Prompt, **options: Unpack[Options]) -> Answer:
        """Generate one text to its end; takes what `generate` takes."""
        decoding = options.get("decoding") or Decoding()
        stream = TextStream(self.piece, decoding.stop)
        text: list[str] = []
        ids: list[int] = []
        for event in self.generate(prompt, **options):
            match event:
                case Verified(verdict=verdict):
                    ids.extend(verdict.tokens)
                    text.extend(stream.push(token) for token in verdict.tokens)
                case Finished(reason=reason, stats=stats):
                    text.append(stream.flush())
                    return Answer("".join(text), tuple(ids), reason, stats)
        raise AssertionError("a generation ended without a Finished event")

    def complete(self, prompt: Prompt, **options: Unpack[Options]) -> str:
        """The text that answers `prompt`; takes what `generate` takes."""
        return self.answer(prompt, **options).text

    def chat(self, messages: Sequence[Message], **options: Unpack[Options]) -> str:
        """The assistant's next message in a conversation; takes what `generate` takes.

        Both models keep what they have read, and the conversation keeps the ids that were
        generated, so the next turn reads only what is new.
        """
        return self.answer(messages, **options).text

    def cancel(self) -> None:
        """Stop the running generation; it ends with reason "cancelled", its text kept."""
        self._calibrator.forbid_skip()
        self._cancel.set()

    def skip_calibration(self) -> None:
        """Where `Calibrating` events come, go on without; from any thread.

        The answer is decoded by what is known, which is plainly where nothing is.
        """
        self._calibrator.skip()

    # -- text

    def encode(self, prompt: Prompt, *, system: str | None = None, raw: bool = False) -> list[int]:
        """Token ids of a prompt. Raises UsageError when it is empty or not understood."""
        return list(self._encode(prompt, system, raw).ids)

    def render(self, messages: Sequence[Message]) -> str:
        """The prompt text of a conversation by the target's chat template."""
        return self.target.model.render(messages)

    def piece(self, token: int) -> bytes:
        """The bytes that `token` stands for; empty for control tokens."""
        return self.target.model.piece(token)

    # -- life

    def close(self) -> None:
        """Free both models; safe to call twice, and while another thread generates."""
        self._cancel.set()
        with self._lock:
            self._closed = True
            if self.draft is not None:
                self.draft.close()
            self.target.close()

    def __enter__(self) -> Pair:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- inside

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError("This pair was closed; load it again.")

    def _encode(
        self, prompt: Prompt, system: str | None, raw: bool, history: History | None = None
    ) -> EncodedChat:
        """A prompt's ids; with the rendered text where the prompt is a conversation."""
        self._check_open()
        if len(prompt) == 0:
            raise UsageError("The prompt is empty; write something for the model to answer.")
        as_text = isinstance(prompt, str)
        as_ids = not as_text and not any(isinstance(item, Mapping) for item in prompt)
        if system is not None and (raw or as_ids):
            raise UsageError("A system message needs the chat template; leave it out, or give messages.")
        if raw and not as_text:
            raise UsageError("raw is for a text; messages and token ids are what they are.")
        if history is not None and (raw or as_ids):
            raise UsageError("history is for a conversation; a raw text and token ids have none.")
        if as_ids:
            return EncodedChat("", (), tuple(self._checked_id(token) for token in prompt))
        if isinstance(prompt, str):
            if raw:
                ids = self.target.model.tokenize(prompt, add_special=True, parse_special=True)
                return EncodedChat("", (), tuple(ids))
            prompt = [{"role": "user", "content": prompt}]
        messages: list[Message] = [] if system is None else [{"role": "system", "content": system}]
        for message in prompt:
            if not isinstance(message, Mapping):
                raise UsageError(f"A conversation holds messages only, not {message!r}.")
            messages.append(message)
        if history is not None:
            self._chats.restore(messages[: history.num_messages], history.ids)
        return self._chats.encode(messages)

    def _remembering(self, chat: EncodedChat, events: Generator[Event]) -> Generator[Event]:
        """The events, the ids of the text remembered as part of its conversation at the end."""
        emitted: list[int] = []
        with contextlib.closing(events):
            for event in events:
                match event:
                    case Verified(verdict=verdict):
                        emitted.extend(verdict.tokens)
                    case Finished():
                        self._chats.remember(chat, emitted)
                yield event

    def _run(self, slots: Sequence[Slot], decoding: Decoding, reuse_cache: bool) -> Generator[Event]:
        with self._turn():
            if not reuse_cache:
                self.target.cache.clear()
                if self.draft is not None:
                    self.draft.cache.clear()
            self._cancel.clear()
            self._num_started += 1
            number = self._num_started
        if number == 1:
            yield from self.notices
        if decoding.drafter == "auto" and decoding.draft_max:
            calibration = self._calibrator.calibrate()
            while (event := self._next(calibration, number)) is not None:
                yield event
        steady_rows = self.target.cache.steady_rows if any(slot.reproducible for slot in slots) else 1
        wanted = Wanted(decoding, self._calibrator.knowledge, steady_rows)
        events = make_engine(self._parts, wanted).generate(slots)
        if steady_rows > 1:
            yield from self._tell_once(_STEADY)
        if self.draft is None and decoding.drafter == "draft" and decoding.draft_max:
            yield from self._tell_once(_NO_DRAFT)
        try:
            while (event := self._next(events, number)) is not None:
                knowledge = self._calibrator.knowledge
                if isinstance(event, Finished) and event.reason != "cancelled" and knowledge is not None:
                    knowledge.answered(event.stats.completion_tokens)
                yield event
        finally:  # also where nobody asks for what comes after the last token
            if decoding.drafter == "auto":
                self._calibrator.keep()

    def _next(self, events: Iterator[Event], number: int) -> Event | None:
        """One step at a time, so that nothing frees or uses the caches in the middle of it."""
        with self._turn():
            if self._num_started != number:
                raise UsageError(
                    "This text cannot go on, because another one was started with its pair; "
                    "finish one text before the next."
                )
            return next(events, None)

    @contextlib.contextmanager
    def _turn(self) -> Generator[None]:
        """Hold the pair for one step; refused when another thread has it or it was closed."""
        if not self._lock.acquire(blocking=False):
            raise UsageError("This pair is generating in another thread; load one for each thread.")
        try:
            self._check_open()
            yield
        finally:
            self._lock.release()

    def _tell_once(self, notice: Notice) -> Generator[Event]:
        if notice not in self._told:
            self._told.add(notice)
            yield notice

    def _slot(self, seq: int, ids: Sequence[int], sampling: Sampling, decoding: Decoding) -> Slot:
        tokens = [self._checked_id(token) for token in ids]
        if not tokens:
            raise UsageError("The prompt has no tokens; write something for the model to answer.")
        size = self.target.settings.context_size
        if len(tokens) >= size:
            raise PromptTooLongError(
                f"The prompt has {len(tokens)} tokens, but the context holds {size} with room for an answer; "
                f"shorten it or raise --ctx-size."
            )
        for token, _bias in sampling.logit_bias:
            self._checked_id(token)
        stop = StopStrings(self.piece, decoding.stop)
        is_eog = self.target.model.is_eog

        def cut(emitted: Sequence[int]) -> tuple[int, FinishReason] | None:
            ended = next((count for count, token in enumerate(emitted, 1) if is_eog(token)), None)
            stopped = stop.push(emitted[:ended])
            if stopped is not None:
                return stopped, "stop"
            return None if ended is None else (ended, "eog")

        return Slot(
            seq=seq,
            tokens=tokens,
            num_prompt=len(tokens),
            max_tokens=decoding.max_tokens,
            coupling=make_coupling(decoding.coupling_name, decoding.seed, seq),
            target_sampler=SamplerChain(sampling),
            draft_sampler=SamplerChain(self._draft_sampling(sampling, decoding)),
            cut=cut,
            reproducible=decoding.reproducible
            and (decoding.coupling_name == "shared" or sampling.temperature == 0),
        )

    def _draft_sampling(self, sampling: Sampling, decoding: Decoding) -> Sampling:
        """The target's settings as the draft can follow them: its temperature, ids that it has."""
        if decoding.draft_temperature is not None:
            sampling = replace(sampling, temperature=decoding.draft_temperature)
        if self.draft is not None and self._parts.token_map is None:
            limit = self.draft.model.num_vocab
            sampling = replace(
                sampling, logit_bias=tuple(item for item in sampling.logit_bias if item[0] < limit)
            )
        return sampling

    def _checked_id(self, token: object) -> int:
        limit = self.target.model.num_vocab
        try:
            number = operator.index(token)  # type: ignore[arg-type]  # that is what is found out
        except TypeError:
            raise UsageError(f"{token!r} is not a token id; a prompt is text, messages or ids.") from None
        if not 0 <= number < limit:
            raise UsageError(f"Token id {number} is outside the vocabulary (0 to {limit - 1}).")
        return number


def _inspecting(events: Generator[Event], inspectors: Sequence[Inspector]) -> Generator[Event]:
    """The events, and after each verdict what else the models might have said."""
    with contextlib.closing(events):
        for event in events:
            yield event
            if isinstance(event, Verified):
                yield Inspected(event.slot, inspectors[event.slot].rows(event.verdict))
