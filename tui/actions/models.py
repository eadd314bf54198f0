"""Commands on models: choose, get, make and load them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from edge_spec import Notice, PairSpec, UsageError
from tui.actions.group import ActionGroup
from tui.chat.start import problem_of
from tui.guard import report


class ModelActions(ActionGroup):
    """What changes the pair that answers."""

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
