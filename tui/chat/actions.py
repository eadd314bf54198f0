"""What each command of the table does. Method names are the commands' with underscores."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from edge_spec import EdgeSpecError, Notice, PairSpec, UsageError, user_path
from tui.chat.start import problem_of
from tui.commands import DESTRUCTIVE, Command, completions, prompt_of, shorten
from tui.conversations.export import export_markdown
from tui.guard import report

if TYPE_CHECKING:
    from textual.screen import Screen

    from tui.screens.chat import ChatScreen

Chosen = TypeVar("Chosen")

_NEXT_ANSWER: Final = "It holds from the next answer on."


class Actions:
    """Does what the user asks for, on one chat screen.

    What changes the conversation first stops the answer that is being given, and waits for its end.
    """

    def __init__(self, screen: ChatScreen) -> None:
        self._screen = screen
        self._waiting: Callable[[], None] | None = None

    def run(self, command: Command, argument: str = "") -> bool:
        """Do it, and say whether that could be done. What is wrong with it, the user is told."""
        if command.setting:
            return self._set(command, argument)
        method = getattr(self, command.name.replace("-", "_"))
        return self._try(lambda: method(argument))

    def allows(self, name: str) -> bool:
        """Whether a command's key is the command's now; otherwise it is the focused widget's own."""
        screen = self._screen
        prompt, offered = screen.prompt, screen.slash_list
        match name:
            case "send" | "newline":
                return prompt.has_focus
            case "recall":
                return prompt.has_focus and (offered.is_open or prompt.on_first_row)
            case "recall-next":
                is_at_end = prompt.is_recalling and prompt.on_last_row
                return prompt.has_focus and (offered.is_open or is_at_end)
            case "complete":
                return prompt.has_focus and offered.is_open
            case "leave":
                return not prompt.text
            case "stop":
                return offered.is_open or screen.is_inspecting or screen.session.state.busy
        return True

    def now_idle(self) -> None:
        """The answer has ended: do what waited for that."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            self._try(waiting)

    # -- the prompt

    def send(self, _argument: str) -> None:
        offered = self._screen.slash_list.marked
        if offered is not None:
            self._take(offered, send=True)
        else:
            self._screen.submit()

    def newline(self, _argument: str) -> None:
        self._screen.prompt.new_line()

    def recall(self, _argument: str) -> None:
        self._move(-1)

    def recall_next(self, _argument: str) -> None:
        self._move(1)

    def complete(self, _argument: str) -> None:
        offered = self._screen.slash_list.marked
        if offered is not None:
            self._take(offered, send=False)

    # -- the answer

    def stop(self, _argument: str) -> None:
        """Esc: close what is open, else stop the answer."""
        screen = self._screen
        if screen.slash_list.is_open:
            screen.slash_list.offer("")
        elif screen.is_inspecting:
            screen.inspect(False)
        elif screen.session.state.name == "calibrating":
            screen.engine.skip_calibration()
        elif screen.session.state.busy:
            self._stop_answer()

    def interrupt(self, _argument: str) -> None:
        """Ctrl+C: what it means elsewhere, as far as that makes sense."""
        screen = self._screen
        selected = screen.prompt.selected_text or screen.get_selected_text()
        if selected:
            screen.app.copy_to_clipboard(selected)
            self._say("The selection was copied.")
        elif screen.session.state.busy:
            self._stop_answer()
        else:
            self._say(f"{screen.key('quit')} quits.")

    def regenerate(self, _argument: str) -> None:
        session = self._screen.session
        message = session.last_message

        def again() -> None:
            if message is None or message in session.turns:
                self._screen.send(session.regenerate())
            else:  # it was stopped before its first token, and was taken back
                self._ask_again(message.block.text)

        self._when_idle(again)

    def edit(self, _argument: str) -> None:
        screen, session = self._screen, self._screen.session
        message = session.last_message

        def take() -> None:
            if message is None or message in session.turns:
                screen.put_into_prompt(prompt_of(session.edit()))
                screen.show_all()
            elif screen.prompt.text != (text := prompt_of(message.block.text)):
                screen.put_into_prompt(text)  # taken back, beside what was being typed

        self._when_idle(take)

    def copy(self, _argument: str) -> None:
        answer = self._screen.session.last_answer
        if answer is None or not answer.block.text:
            raise UsageError("There is no answer yet that could be copied.")
        self._screen.app.copy_to_clipboard(answer.block.text)
        self._say("The answer was copied, without rejected text.")

    def stats(self, _argument: str) -> None:
        from tui.screens.stats import StatsScreen

        session = self._screen.session
        self._screen.app.push_screen(StatsScreen(session.gauges(), session.fold, session.info))

    def trace(self, argument: str) -> None:
        tracing = self._screen.session.tracing
        if argument:
            self._start_trace(argument)
        elif tracing.path is not None:
            path = tracing.path
            tracing.end()
            self._say(f"The trace is in {path}.")
        else:
            title = "Save the next answers as a trace in the file"
            self._ask(title, "answers.trace.jsonl", self._start_trace)

    def replay(self, argument: str) -> None:
        def watch(name: str) -> None:
            from tui.screens.replay import ReplayScreen

            tokens, keys = self._screen.tokens, self._screen.key
            shown, glyphs = tokens.show_rejected, tokens.glyphs
            self._screen.app.push_screen(
                ReplayScreen(_path(name), show_rejected=shown, glyphs=glyphs, keys=keys)
            )

        self._ask_unless(argument, "Watch the trace in the file", "", watch)

    # -- conversations

    def new_chat(self, _argument: str) -> None:
        self._when_idle(self._begin)

    def conversations(self, _argument: str) -> None:
        from tui.screens.conversations import ConversationsScreen

        record = self._screen.session.record
        if record.store is None:
            raise UsageError("Conversations are not being saved, so there is no list of them.")

        def chosen(conversation: int | None) -> None:
            if conversation is not None and conversation != record.conversation:
                self._when_idle(lambda: self._open(conversation))
            else:
                self._try(record.refresh)  # it may have got another title there
                self._screen.show_title()

        self._show(ConversationsScreen(record.store, record.conversation), chosen)

    def rename(self, argument: str) -> None:
        record = self._screen.session.record

        def rename(title: str) -> None:
            record.rename(title)
            self._screen.show_title()

        self._ask_unless(argument, "Title of this conversation", record.title, rename)

    def export(self, argument: str) -> None:
        session = self._screen.session
        if not session.turns:
            raise UsageError("There is nothing to export yet; write a message first.")

        def write(name: str) -> None:
            path = _path(name)
            text = export_markdown(session.snapshot())
            try:
                with path.open("x", encoding="utf-8") as file:
                    file.write(text)
            except FileExistsError:
                self._ask(f"{path} is there already. Export into the file", name, write)
            except OSError as error:
                raise UsageError(f"{path} cannot be written: {error.strerror}.") from error
            else:
                self._say(f"The conversation was written into {path}, without rejected text.")

        title = "Export as Markdown into the file"
        self._ask_unless(argument, title, _file_name(session.snapshot().title), write)

    def delete(self, _argument: str) -> None:
        from tui.screens.confirm import ConfirmScreen

        record = self._screen.session.record
        if record.conversation is None:
            raise UsageError("Nothing of this conversation is saved, so there is nothing to delete.")

        def delete() -> None:
            record.delete()
            self._begin()
            self._say("The conversation was deleted.")

        def confirmed(yes: bool | None) -> None:
            if yes:
                self._when_idle(delete)

        question = f"Delete “{shorten(record.title)}” and all that was said in it?"
        self._show(ConfirmScreen(question, "Delete"), confirmed)

    def system(self, argument: str) -> None:
        session = self._screen.session

        def change(text: str) -> None:
            self._when_idle(lambda: session.set_system("" if text.lower() == "none" else text))

        title = "System prompt; empty for none"
        if argument:
            change(argument)
        else:
            self._ask(title, session.settings.system, change, lines=True)

    # -- models and settings

    def models(self, argument: str) -> None:
        spec = self._spec()
        if argument:
            self._load_named(replace(spec, target=argument, draft=None))
            return
        from tui.screens.models import ModelScreen

        was_loaded = self._screen.is_loaded

        def chosen(pair: PairSpec | None) -> None:
            if pair is not None:
                self._load(pair)
            elif was_loaded:
                self._load_again()

        current = spec if spec.target else None
        options = self._screen.settings.load_options()
        self._show(ModelScreen(current, options, self._screen, self._screen.key), chosen)

    def pull(self, argument: str) -> None:
        from tui.screens.get import GetScreen

        def got(names: tuple[str, ...] | None) -> None:
            if names:
                verb = "is" if len(names) == 1 else "are"
                self._say(f"{' and '.join(names)} {verb} here; {self._screen.key('models')} chooses models.")

        self._show(GetScreen(argument), got)

    def forge(self, _argument: str) -> None:
        spec = self._spec()
        if not spec.target:
            raise UsageError(f"A draft is made for a target; {self._screen.key('models')} chooses one.")
        from tui.models.choices import of_ref
        from tui.screens.forge import ForgeScreen

        was_loaded = self._screen.is_loaded

        def forged(path: Path | None) -> None:
            if path is not None:
                self._load(replace(spec, draft=str(path)))
            elif was_loaded:
                self._load_again()

        draft = of_ref(spec.draft) if spec.draft is not None else None
        screen = ForgeScreen(of_ref(spec.target), draft, self._screen, spec.options)
        self._show(screen, forged)

    def draft(self, argument: str) -> None:
        spec = self._spec()
        if not spec.target:
            raise UsageError("A draft model needs a target; choose that first.")

        def load(name: str) -> None:
            if name.lower() == "none":
                self._load(replace(spec, draft=None))
            else:
                self._load_named(replace(spec, draft=name))

        self._ask_unless(argument, 'Draft model, or "none"', spec.draft or "none", load)

    def speculation(self, _argument: str) -> None:
        session = self._screen.session
        if session.info is not None and session.lacks_draft:
            raise UsageError(f"There is no draft model; {self._screen.key('draft')} chooses one.")
        session.settings.speculating = not session.settings.speculating
        self._say(f"Speculation is {'on' if session.settings.speculating else 'off'}.{self._from_when()}")
        self._screen.show_gauges()

    def _set(self, command: Command, argument: str) -> bool:
        settings = self._screen.session.settings
        name = command.setting

        def put(text: str) -> None:
            settings.set(name, text)
            is_off = name == "draft-max" and not settings.speculating
            words = "Speculation is off" if is_off else f"{name} is {settings.shown(name)}"
            self._say(f"{words}.{self._from_when()}")
            self._screen.show_gauges()

        return self._try(lambda: self._ask_unless(argument, command.summary, settings.shown(name), put))

    # -- what is shown

    def rendered(self, _argument: str) -> None:
        self._screen.show_rendered(self._screen.rendered is None)

    def rejected(self, _argument: str) -> None:
        tokens = self._screen.tokens
        tokens.show_rejected = not tokens.show_rejected
        self._say(f"Rejected tokens are {'shown' if tokens.show_rejected else 'hidden'}.")

    def glyphs(self, _argument: str) -> None:
        self._screen.tokens.glyphs = not self._screen.tokens.glyphs

    def inspect(self, _argument: str) -> None:
        self._screen.inspect(not self._screen.is_inspecting)

    def theme(self, argument: str) -> None:
        app = self._screen.app
        if not argument:
            app.search_themes()
        elif argument in app.available_themes:
            app.theme = argument
        else:
            names = ", ".join(sorted(app.available_themes))
            raise UsageError(f'There is no theme "{shorten(argument)}"; there are {names}.')

    def page_up(self, _argument: str) -> None:
        self._screen.view.scroll_page_up(animate=False)

    def page_down(self, _argument: str) -> None:
        self._screen.view.scroll_page_down(animate=False)

    def top(self, _argument: str) -> None:
        self._screen.view.scroll_home(animate=False)

    def bottom(self, _argument: str) -> None:
        self._screen.view.scroll_end(animate=False)

    # -- the program

    def help(self, _argument: str) -> None:
        from tui.screens.help import HelpScreen

        self._screen.app.push_screen(HelpScreen(self._screen.key))

    def palette(self, _argument: str) -> None:
        self._screen.app.action_command_palette()

    def settings(self, _argument: str) -> None:
        from tui.screens.settings import SettingsScreen

        def saved(changed: bool | None) -> None:
            if changed:
                self._screen.settings_saved()

        self._show(SettingsScreen(self._screen.resolve), saved)

    def leave(self, _argument: str) -> None:
        if self._screen.prompt.text:
            raise UsageError(f"The prompt is not empty; {self._screen.key('quit')} quits all the same.")
        self._screen.app.exit()

    def quit(self, _argument: str) -> None:
        self._screen.app.exit()

    # -- inside

    def _try(self, do: Callable[[], None]) -> bool:
        """Do it, and tell the user what is wrong with it; a bug of ours ends nothing."""
        try:
            do()
        except EdgeSpecError as error:
            self._screen.tell(Notice("warning", str(error)))
        except Exception as error:
            report(self._screen.app, error)
        else:
            return True
        return False

    def _say(self, words: str) -> None:
        self._screen.tell(Notice("info", words))

    def _from_when(self) -> str:
        return f" {_NEXT_ANSWER}" if self._screen.session.state.busy else ""

    def _when_idle(self, do: Callable[[], None]) -> None:
        """Do it once no answer is being given; one that is is stopped for it."""
        if self._screen.session.state.busy:
            self._waiting = do
            self._stop_answer()
        else:
            do()

    def _show(self, screen: Screen[Chosen], use: Callable[[Chosen | None], None]) -> None:
        """Show a screen and use what was chosen there. What is wrong with that, the user is told."""

        def chosen(choice: Chosen | None) -> None:
            self._try(lambda: use(choice))

        self._screen.app.push_screen(screen, chosen)

    def _ask_again(self, text: str) -> None:
        """Ask what was taken back into the prompt, or beside it."""
        request = self._screen.session.ask(text)
        if self._screen.prompt.text == prompt_of(text):
            self._screen.clear_prompt()
        self._screen.send(request)
        self._say("Your message is asked again.")

    def _stop_answer(self) -> None:
        self._screen.session.stop()
        self._screen.engine.cancel()
        self._screen.show_state()

    def _ask(self, title: str, text: str, use: Callable[[str], None], *, lines: bool = False) -> None:
        """Let the user write a text and use it: one of several `lines` that may be empty, or one line."""
        from tui.screens.edit import EditScreen

        def written(answer: str | None) -> None:
            if answer is not None and (lines or answer.strip()):
                use(answer.strip())

        self._show(EditScreen(title, text, multiline=lines), written)

    def _ask_unless(self, argument: str, title: str, text: str, use: Callable[[str], None]) -> None:
        if argument:
            use(argument)
        else:
            self._ask(title, text, use)

    def _take(self, command: Command, *, send: bool) -> None:
        """Complete what is marked in the list; `send` it if nothing can stand behind it."""
        prompt = self._screen.prompt
        word = self._screen.slash_list.word
        complete = prompt.text == f"/{word}"
        doubtful = command.name in DESTRUCTIVE and not complete and len(completions(prompt.text)) > 1
        if (
            send
            and not doubtful
            and (complete or not command.argument)
            and not (complete and command.needs_argument)
        ):
            prompt.put(f"/{word}")
            self._screen.slash_list.offer("")
            self._screen.submit()
        else:
            prompt.put(f"/{word} ")

    def _move(self, step: int) -> None:
        offered = self._screen.slash_list
        if offered.is_open:
            offered.move(step)
        else:
            self._screen.prompt.recall(step)

    def _start_trace(self, name: str) -> None:
        path = _path(name)
        if path.exists():
            raise UsageError(f"{path} is there already; give the trace another name.")
        self._screen.session.tracing.start(path)
        self._say(f"The next answers are saved in {path}, until {self._screen.key('trace')} or /trace.")

    def _begin(self) -> None:
        self._screen.session.begin()
        self._screen.show_all()
        self._screen.prompt.focus()

    def _open(self, conversation: int) -> None:
        session = self._screen.session
        models = session.open(conversation)
        self._screen.show_all()
        self._screen.prompt.focus()
        if session.turns and session.turns[-1].role == "user":
            self._say(f"Its last message has no answer yet; {self._screen.key('regenerate')} answers it.")
        if session.spec is not None and models.target != session.spec.target:
            self._say(
                f"This conversation was with {models.target}; it goes on with the models that are loaded. "
                f"{self._screen.key('models')} changes them."
            )

    def _spec(self) -> PairSpec:
        """The pair that is loaded or was, or no pair with the options for one."""
        return self._screen.session.spec or PairSpec("", None, self._screen.settings.load_options())

    def _load_again(self) -> None:
        """Load what was unloaded, if it was."""
        spec = self._screen.session.spec
        if spec is not None and not self._screen.is_loaded:
            self._load(spec)

    def _load(self, spec: PairSpec) -> None:
        self._when_idle(lambda: self._screen.load(spec))

    def _load_named(self, spec: PairSpec) -> None:
        """Load what the user wrote; if it cannot be loaded, what is loaded stays."""

        newest = self._screen.engine.newest_load

        async def judge() -> None:
            try:
                problem = await asyncio.to_thread(problem_of, spec)  # it reads files
            except Exception as error:
                report(self._screen.app, error)
                return
            if problem is not None:
                self._screen.tell(Notice("warning", problem))
            elif newest == self._screen.engine.newest_load:  # else another pair was chosen meanwhile
                self._try(lambda: self._load(spec))

        self._screen.run_worker(judge(), group="judge", exclusive=True)


def _path(name: str) -> Path:
    return user_path(name)


def _file_name(title: str) -> str:
    """A name for a conversation's file."""
    kept = "".join(c if c.isalnum() or c in "-_" else " " for c in title)
    return "-".join(kept.split())[:60].lower() + ".md" if kept.split() else "conversation.md"
