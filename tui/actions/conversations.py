"""Commands on conversations: begin, find, name, export and delete them, and their system prompt."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from edge_spec import UsageError, user_path
from tui.actions.group import ActionGroup
from tui.commands import shorten
from tui.conversations.export import export_markdown


class ConversationActions(ActionGroup):
    """What is done with the conversation as a whole, or with another one."""

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

        def write(name: str, replaces: Path | None = None) -> None:
            path = user_path(name).absolute()
            if os.path.isdir(path):
                raise UsageError(f"{path} is a folder; name a file in it.")
            text = export_markdown(session.snapshot())
            try:
                with path.open("w" if path == replaces else "x", encoding="utf-8") as file:
                    file.write(text)
            except FileExistsError:
                title = f"{path} is there already. Enter replaces it; another name keeps it."
                self._ask(
                    title, name, partial(write, replaces=path), verb="replace, or export under that name"
                )
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

    def _begin(self) -> None:
        self._screen.leave_edit()
        self._screen.wait_no_longer()  # what was promised was for the conversation before
        self._screen.session.begin()
        self._screen.show_all()
        self._screen.prompt.focus()

    def _open(self, conversation: int) -> None:
        session = self._screen.session
        self._screen.leave_edit()
        self._screen.wait_no_longer()
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


def _file_name(title: str) -> str:
    """A name for a conversation's file."""
    kept = "".join(c if c.isalnum() or c in "-_" else " " for c in title)
    return "-".join(kept.split())[:60].lower() + ".md" if kept.split() else "conversation.md"
