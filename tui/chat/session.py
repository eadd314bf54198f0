"""A conversation as the interface holds it: what was said, what is going on, what comes next.

Nothing here knows Textual or the engine's thread. Whoever owns a session asks it for requests,
gives it the engine's events, and shows what it says through a `SessionView`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from edge_spec import (
    Calibrating,
    ChatRequest,
    EngineCrashedError,
    Event,
    Finished,
    Notice,
    PairInfo,
    PairSpec,
    Prefilled,
    Started,
    TextStream,
    UsageError,
    Verified,
)
from tui.chat.gauges import Gauges, PlainReference, read_gauges
from tui.chat.settings import ChatSettings
from tui.chat.speculation import Speculation, lacks_draft, speculation_of
from tui.chat.states import State
from tui.chat.tracing import Tracing
from tui.chat.transcript import AnswerFold, Block, Transcript
from tui.chat.turns import Piece, Turn, history_of, known_turn, messages_of, saved_turn
from tui.conversations.record import Record
from tui.conversations.saved import Conversation, SavedMessage, title_of

NUM_INSPECTED: Final = 5
"""How many alternatives of each token are asked for while inspecting, if none are otherwise."""

_BEFORE_TEXT: Final = frozenset({"calibrating", "reading"})


class SessionView(Protocol):
    """What a session tells whoever shows it."""

    def show_transcript(self, transcript: Transcript) -> None:
        """The transcript is another one, or was cut."""
        ...

    def show_change(self, block: int, span: int) -> None:
        """The transcript has grown or changed, from `span` of `block` on."""
        ...

    def take_back(self, text: str) -> None:
        """A message that got no answer has left the conversation; it belongs into the prompt."""
        ...

    def tell(self, notice: Notice) -> None:
        """Something that the user should know."""
        ...


class ChatSession:
    """One conversation after the other, with one pair after the other.

    While `state.busy`, the last turn is the answer that is being given; then only what the
    engine says may change the turns.
    """

    def __init__(self, settings: ChatSettings, record: Record, view: SessionView) -> None:
        self.settings = settings
        self.record = record
        self.tracing = Tracing(view.tell)
        self.transcript = Transcript()
        self.turns: list[Turn] = []
        self.fold: AnswerFold | None = None
        self.state = State("empty")
        self.spec: PairSpec | None = None
        self.info: PairInfo | None = None
        self.inspecting = False
        self.num_alternatives = 0
        self._view = view
        self._asked_to_draft = False
        self._system_of_new: str | None = None  # for the next conversation, if it is another one
        self._edited: Turn | None = None  # the message that the next one is written in the place of
        self._replaced: tuple[Turn, ...] = ()  # leave the conversation when the new answer begins
        self._is_for_edit = False  # whether the answer that was asked for is to an edited message
        self._give_up: Callable[[], None] = self._take_back
        self._answer_settings: Mapping[str, Any] = {}
        self._piece: Piece | None = None
        self._plain = PlainReference()
        self._text = TextStream(_no_piece)
        self._begin_transcript()

    # -- what there is

    @property
    def last_answer(self) -> Turn | None:
        return next((turn for turn in reversed(self.turns) if turn.role == "assistant"), None)

    @property
    def last_message(self) -> Turn | None:
        """The user's last."""
        return next((turn for turn in reversed(self.turns) if turn.role == "user"), None)

    @property
    def is_loading(self) -> bool:
        """Whether the models are on their way, for the first time or after a crash."""
        return self.info is None and self.state.name in ("loading", "crashed")

    @property
    def is_editing(self) -> bool:
        """Whether the next message takes the place of the last."""
        return self._edited is not None

    @property
    def is_answering_edit(self) -> bool:
        """Whether an answer to an edited message was asked for and has no token: that would come back."""
        fold = self.fold
        has_begun = fold is not None and fold.stats.completion_tokens > 0
        return self._is_for_edit and self.state.busy and not has_begun

    @property
    def is_unheard(self) -> bool:
        """Whether something was asked and the engine has said nothing of it: it may have been gone before."""
        return self.state == State("reading")

    def turn_of(self, block: int) -> Turn | None:
        """The turn that the transcript's block is, or None for a note."""
        blocks = self.transcript.blocks
        if block >= len(blocks):
            return None
        return next((turn for turn in self.turns if turn.block is blocks[block]), None)

    @property
    def lacks_draft(self) -> bool:
        """Whether a draft model is to draft, and there is none; n-grams need none."""
        return lacks_draft(self.spec, self.info, self.settings.decoding)

    @property
    def speculation(self) -> Speculation:
        """Whether the next answer is drafted for, and why or why not."""
        return speculation_of(
            self.settings, self.spec, self.info, self.fold, asked_to_draft=self._asked_to_draft
        )

    @property
    def context_used(self) -> int | None:
        """Tokens of the conversation as the models hold it; None before they have read it."""
        if self.state.busy and self.fold is not None and self.fold.prompt_ids:
            return len(self.fold.prompt_ids) + self.fold.stats.completion_tokens
        known = known_turn(self.turns)
        return 0 if not self.turns else len(known.ids) if known is not None else None

    def gauges(self) -> Gauges:
        return read_gauges(
            self.fold,
            self.speculation,
            plain_speed=self._plain.speed,
            context_used=self.context_used,
            context_size=self.info.context_size if self.info is not None else None,
        )

    def snapshot(self) -> Conversation:
        """The conversation as the store has it, or as it is here where the store has not all of it."""
        saved = self.record.load()
        if saved is not None:
            return saved
        now = datetime.now(UTC)
        messages = tuple(
            SavedMessage(0, turn.role, turn.block.text, (), (), now, None, {}, {}, turn.reason)
            for turn in self.turns
        )
        title = self.record.title or title_of(self.turns[0].block.text if self.turns else "")
        models, settings = self.spec or PairSpec("", None, {}), self.settings.plain()
        return Conversation(0, title, now, now, self.settings.system, models, settings, messages)

    # -- what the user wants

    def ask(self, text: str) -> ChatRequest:
        """Add a message; return what is to be asked. Raises UsageError where nothing can be asked.

        While editing it is in the place of the last message and its answer, which come back if the new
        answer never has a token, as does the editing, unless something else stands in the prompt then.
        """
        self._check_can_ask()
        assert self.spec is not None, "what is loaded was asked for"
        beginning = (self.settings.system, self.spec, self.settings.plain())
        place = self.record.say(text, *beginning)
        if self._is_saved_anew(self.turns):
            place = self.record.say(text, *beginning)
        edited, self._edited = self._edited, None
        replaced, put_back = self._set_aside(len(self.turns) if edited is None else self.turns.index(edited))
        self._add(Turn("user", Block.of_text("you", text), place=place))

        def bring_back() -> None:
            self.record.remove([place])
            put_back()
            self._edited = edited
            self._view.take_back(text)

        if edited is None:
            return self._request(replaced, self._take_back)
        return self._request(replaced, bring_back, for_edit=True)

    def regenerate(self) -> ChatRequest:
        """Ask the last message again, answered or not. Raises UsageError.

        An answer that there is comes back if the new one never has a token.
        """
        self._check_can_ask()
        if not self.turns:
            raise UsageError("There is no answer yet that could be given again.")
        is_answered = self.turns[-1].role == "assistant"
        replaced, put_back = self._set_aside(len(self.turns) - is_answered)

        def bring_back() -> None:
            put_back()
            if replaced:
                self._view.tell(Notice("info", "There was no new answer; the one before is back."))

        return self._request(replaced, bring_back)

    def edit(self) -> str:
        """Write the last message anew; return its text for the prompt. Raises UsageError.

        It stays, with its answer, until the next message has an answer in its place (see `ask`).
        """
        self._check_idle()
        message = self.last_message
        if message is None:
            raise UsageError("There is no message yet that could be edited.")
        self._edited = message
        return message.block.text

    def leave_edit(self) -> None:
        """The next message comes after the last again."""
        self._edited = None

    def begin(self) -> None:
        """A new conversation, with the same models, and the settings that `ChatSettings` has for it."""
        self._check_idle()
        self.record.leave()
        self.turns, self.fold, self._edited = [], None, None
        self.settings.begin()
        if self._system_of_new is not None:
            self.settings.system, self._system_of_new = self._system_of_new, None
        self._begin_transcript()
        self._settle()
        self._view.show_transcript(self.transcript)

    def open(self, conversation: int) -> PairSpec:
        """Go on with a conversation of the store; return its models. Raises UsageError.

        Its last message may have no answer, where the program ended before one began.
        """
        self._check_idle()
        saved = self.record.open(conversation)
        if self._system_of_new is None:
            self._system_of_new = self.settings.system
        self.settings.system = saved.system
        self.settings.restore(saved.settings)
        self.turns, self.fold, self._edited = [], None, None
        self._begin_transcript()
        for message in saved.messages:
            turn = saved_turn(message, self._is_target)
            if turn is not None:
                self.turns.append(turn)
                self.transcript.blocks.append(turn.block)
        self._settle()
        self._view.show_transcript(self.transcript)
        return saved.models

    def set_system(self, text: str) -> None:
        """Change the system prompt; the models will read the whole conversation again. Raises UsageError."""
        self._check_idle()
        self.settings.system = text
        self.record.system(text)
        self._forget_ids()
        if self.transcript.blocks and self.transcript.blocks[0].role == "system":
            del self.transcript.blocks[0]
        if text:
            self.transcript.blocks.insert(0, Block.of_text("system", text))
        self._view.show_transcript(self.transcript)

    def system_of_new(self, text: str) -> None:
        """Conversations that begin from now on have this system prompt; one with messages keeps its own."""
        if self.turns:
            self._system_of_new = text
        else:
            self._system_of_new = None
            self.set_system(text)

    def note(self, text: str) -> None:
        """Say something in the transcript that is no part of the conversation."""
        self._append(Block.of_text("note", text))

    def stop(self) -> None:
        """The answer was asked to stop; it goes on until the engine says that it ended."""
        if self.state.busy:
            self.state = State("stopping")

    # -- what the engine says

    def loading(self, spec: PairSpec, model: str = "target", part: tuple[int, int] | None = None) -> None:
        """A pair is being loaded, in the place of any other."""
        if self.spec != spec:
            self._plain = PlainReference()
            self.tracing.end_for("other models are loaded")
            if not self._is_target(spec):
                self._forget_ids()
        self.spec, self.info = spec, None
        if self.state.name == "crashed":
            self.state = replace(self.state, part=part)
        else:
            self.state = State("loading", model, part)

    def loaded(self, info: PairInfo, piece: Piece) -> None:
        """The pair can be asked."""
        restarted = self.state.name == "crashed"
        self.info, self._piece = info, piece
        self.state = State("restarted" if restarted else "ready")
        assert self.spec is not None, "loading comes first"
        self.record.models(self.spec)
        for notice in info.notices:
            self._view.tell(notice)

    def unloaded(self) -> None:
        """The models were freed; the conversation stays, and what they read of it has to be read again."""
        self.info = None
        self.tracing.end_for("the models were unloaded")
        self.state = State("empty")

    def failed(self, words: str, *, loading: bool, full: bool = False) -> None:
        """Loading, or the answer, ended with an error; `full` if that was the context's end."""
        if loading:
            self.info = None
        self._break_off("error")
        self._append(Block.of_text("error", words))
        if full:
            self.state = State("full")
        else:
            self.state = State(
                "error", "no model is loaded, see above" if loading else "it failed, see above"
            )

    def crashed(self, error: EngineCrashedError, *, loading: bool) -> None:
        """The engine is gone; the conversation stays."""
        self.info = None
        self._break_off("crashed")
        self._append(Block.of_text("error", str(error)))
        if loading:
            self.state = State("load-crashed")
        else:
            self.state = State("crashed", f" ({error.signal_name})" if error.signal_name else "")

    def see(self, events: Sequence[Event]) -> None:
        """Take in what happened in the answer."""
        fold = self.fold
        if fold is None or fold.finished is not None:
            return
        first: int | None = None
        for event in events:
            self.tracing.see(event)
            changed = fold.see(event)
            if changed is not None:
                first = changed if first is None else min(first, changed)
            match event:
                case Calibrating(fraction=fraction) if self.state.name in _BEFORE_TEXT:
                    self.state = State("calibrating", part=(round(100 * fraction), 100))
                case Started() | Prefilled(model="target") if self.state.name in _BEFORE_TEXT:
                    self.state = State("reading", part=fold.reading)
                case Verified(verdict=verdict):
                    if 0 < len(verdict.tokens) == fold.stats.completion_tokens:
                        self._keep_from_now()
                    self.record.grow(verdict.tokens, "".join(map(self._text.push, verdict.tokens)))
                    if self.state.name == "reading":
                        self.state = State("streaming")
                case Notice() if self.info is None or event not in self.info.notices:
                    self._view.tell(event)
        self._plain.see(fold)
        self.record.flush()
        if first is not None:
            self._show_change(fold.block, first)
        if fold.finished is not None:
            self._finish(fold.finished)

    # -- inside

    def _check_idle(self) -> None:
        if self.state.busy:
            raise UsageError("An answer is being given; stop it first.")

    def _check_can_ask(self) -> None:
        self._check_idle()
        if self.info is None:
            raise UsageError(
                "The models are still being loaded." if self.is_loading else "No model is loaded."
            )

    def _settle(self) -> None:
        """Back to nothing special, unless something is going on."""
        if self.state.name not in ("loading", "crashed", "load-crashed", "empty"):
            self.state = State("ready" if self.info is not None else "empty")

    def _begin_transcript(self) -> None:
        system = self.settings.system
        self.transcript = Transcript([Block.of_text("system", system)] if system else [])

    def _add(self, turn: Turn) -> None:
        self.turns.append(turn)
        self._append(turn.block)

    def _append(self, block: Block) -> None:
        self.transcript.blocks.append(block)
        self._view.show_change(len(self.transcript.blocks) - 1, 0)

    def _show_change(self, block: Block, span: int) -> None:
        self._view.show_change(self.transcript.blocks.index(block), span)

    def _set_aside(self, num_turns: int) -> tuple[tuple[Turn, ...], Callable[[], None]]:
        """Keep the first `num_turns` messages; return the others, and what brings them back.

        Notes among them go and come with them; in the store they stay.
        """
        blocks, fold, asked_to_draft = self.transcript.blocks, self.fold, self._asked_to_draft
        removed = tuple(self.turns[num_turns:])
        begin = blocks.index(removed[0].block) if removed else len(blocks)
        removed_blocks = blocks[begin:]
        if removed:
            del self.turns[num_turns:], blocks[begin:]
            self._view.show_transcript(self.transcript)

        def put_back() -> None:
            self.turns[num_turns:] = removed
            blocks[begin:] = removed_blocks
            self.fold, self._asked_to_draft = fold, asked_to_draft
            self._view.show_transcript(self.transcript)

        return removed, put_back

    def _take_back(self) -> None:
        """The last message got no answer: it goes back to where it came from, notes after it too."""
        message = self.last_message
        assert message is not None
        begin = self.turns.index(message)
        self.record.remove(turn.place for turn in self.turns[begin:])
        self._set_aside(begin)
        self.fold = None
        self._settle()
        self._view.take_back(message.block.text)

    def _request(
        self, replaced: tuple[Turn, ...], give_up: Callable[[], None], *, for_edit: bool = False
    ) -> ChatRequest:
        """What is asked now; from here on the answer is the last turn.

        It is one in the place of `replaced`. `give_up` is for an answer that ends without a token.
        """
        assert self.info is not None and self._piece is not None
        self._replaced, self._give_up, self._is_for_edit = replaced, give_up, for_edit
        self._answer_settings = self.settings.plain()
        messages = messages_of(self.turns, self.settings.system)
        history = history_of(self.turns, self.settings.system)
        turn = Turn("assistant", Block("model"), piece=self._piece)
        decoding = self.settings.effective
        self.fold = AnswerFold(turn.block, self._piece, decoding.stop)
        self._text = TextStream(self._piece, decoding.stop)
        self._asked_to_draft = bool(decoding.draft_max)
        self._add(turn)
        self.state = State("reading")
        header = self.info.header
        header = replace(header, settings={**header.settings, **self.settings.used()})
        self.tracing.answer(header, self._piece)
        inspect = self.num_alternatives or (NUM_INSPECTED if self.inspecting else 0)
        return ChatRequest(tuple(messages), self.settings.sampling, decoding, inspect, history)

    def _is_target(self, spec: PairSpec) -> bool:
        """Whether a pair has the target that is loaded, or being loaded."""
        return self.spec is not None and self.spec.target == spec.target

    def _forget_ids(self) -> None:
        """The models will read the conversation anew: it has another beginning, or other readers."""
        for turn in self.turns:
            turn.ids = ()

    def _keep_from_now(self) -> None:
        """The answer has a token: from here on it is saved, and the one before it is no longer."""
        if self._replaced:
            self.record.remove(turn.place for turn in self._replaced)
        self.turns[-1].place = self.record.answer(self._answer_settings)
        if self._is_saved_anew(self.turns[:-1]):
            self.turns[-1].place = self.record.answer(self._answer_settings)

    def _is_saved_anew(self, turns: Sequence[Turn]) -> bool:
        """Save these as a new conversation, if the one that they are of was deleted by another window."""
        if not self.record.is_deleted:
            return False
        assert self.spec is not None, "something was asked"
        title = self.record.title
        self.record.begin_again(self.settings.system, self.spec, self.settings.plain())
        for turn in turns:
            tokens = turn.block.token_ids if turn.role == "assistant" else ()
            prompt = turn.ids[: len(turn.ids) - len(tokens)]
            self.record.repeat(turn.place, turn.role, turn.block.text, tokens, prompt, turn.reason or "")
        if turns and title != title_of(turns[0].block.text):
            self.record.call_again(title)
        return True

    def _break_off(self, reason: str) -> None:
        """The answer, if there is one, will not go on; what there is of it is kept."""
        fold = self.fold
        if fold is None or fold.finished is not None or not self.state.busy:
            return
        changed = fold.end()
        if changed is not None:
            self._show_change(fold.block, changed)
        self._keep_answer(reason)

    def _finish(self, finished: Finished) -> None:
        kept = self._keep_answer(finished.reason)
        match finished.reason:
            case "cancelled" if kept:
                self.state = State("stopped")
            case "context":
                self.state = State("full")
            case "length":
                self.state = State("length", str(self._answer_settings["max-tokens"]))
            case _:
                self.state = State("ready")

    def _keep_answer(self, reason: str) -> bool:
        """The answer has ended. One of no token at all is given up."""
        fold, turn = self.fold, self.turns[-1]
        assert fold is not None
        if fold.stats.completion_tokens == 0:
            self.state = State("ready")
            self._give_up()
            return False
        turn.ids, turn.reason = (*fold.prompt_ids, *turn.block.token_ids), reason
        self.record.grow((), self._text.flush())
        self.record.finish(reason, fold.stats, fold.prompt_ids)
        return True


def _no_piece(token: int) -> bytes:
    raise AssertionError(f"no answer is being given, but token {token} came")
