"""Commands on answers: stop, ask again, copy, count, save and watch them."""

from __future__ import annotations

import os

from edge_spec import UsageError, user_path
from tui.actions.group import ActionGroup
from tui.commands import prompt_of


class AnswerActions(ActionGroup):
    """What is done with the answer that is being given, or was given last."""

    def stop(self, _argument: str) -> None:
        """Esc: close what is open, else stop the answer, or what waits to be sent, else leave editing."""
        screen = self._screen
        if screen.slash_list.is_open:
            screen.slash_list.offer("")
        elif screen.is_inspecting:
            screen.inspect(False)
        elif screen.session.state.name == "calibrating":
            screen.engine.skip_calibration()
        elif screen.session.state.busy:
            self._stop_answer()
        elif screen.is_waiting:
            screen.wait_no_longer()
            self._say("Nothing is sent by itself.")
        else:
            screen.leave_edit()

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
        message, is_edit = session.last_message, session.is_answering_edit

        def again() -> None:
            if message is None or message in session.turns:
                self._screen.answer_again()
            else:  # it was stopped before its first token, and was taken back
                if is_edit:
                    session.edit()
                self._screen.ask_again(message.block.text)

        self._when_idle(again)

    def edit(self, _argument: str) -> None:
        screen, session = self._screen, self._screen.session
        message, is_edit = session.last_message, session.is_answering_edit

        def take() -> None:
            if message is None or message in session.turns:
                screen.edit()
            elif is_edit and not session.is_editing:
                screen.edit(message.block.text)
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
        self._screen.app.push_screen(
            StatsScreen(session.gauges(), session.fold, session.info, is_answering=session.state.busy)
        )

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
                ReplayScreen(user_path(name), show_rejected=shown, glyphs=glyphs, keys=keys)
            )

        self._ask_unless(argument, "Watch the trace in the file", "", watch)

    def _start_trace(self, name: str) -> None:
        path = user_path(name)
        if os.path.exists(path):
            raise UsageError(f"{path} is there already; give the trace another name.")
        self._screen.session.tracing.start(path)
        self._say(f"The next answers are saved in {path}, until {self._screen.key('trace')} or /trace.")
