"""A screen closes itself, once, and no other."""

from __future__ import annotations

from tests.tui.alone import alone, until
from tui.screens.closing import ClosingModal, ClosingScreen


async def test_closing_twice_closes_only_this_screen() -> None:
    for kind in (ClosingModal[str], ClosingScreen[str]):
        below, screen = ClosingModal[str](), kind()
        async with alone(below) as (app, pilot):
            results: list[str | None] = []
            app.push_screen(screen, results.append)
            await pilot.pause()
            screen.dismiss("one")
            screen.dismiss("two")
            await pilot.pause()
            assert app.screen is below
            assert results == ["one"] and not app.results


async def test_a_screen_that_is_covered_closes_when_it_comes_to_light() -> None:
    screen, above = ClosingModal[str](), ClosingModal[str]()
    async with alone(screen) as (app, pilot):
        app.push_screen(above)
        await pilot.pause()
        screen.dismiss("done")
        await pilot.pause()
        assert app.screen is above and not app.results
        above.dismiss(None)
        await until(pilot, lambda: app.results)
        assert app.results == ["done"]
        assert app.screen is not screen
