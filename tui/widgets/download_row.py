"""One file of a pull: its name, a bar, and figures."""

from __future__ import annotations

from typing import ClassVar

from textual.content import Content
from textual.reactive import reactive
from textual.style import Style
from textual.widget import Widget

from edge_spec import harmless, size_text
from tui.models.amounts import duration_text
from tui.models.downloads import Download


class DownloadRow(Widget):
    """Three lines: what comes from where, a bar, and how far it has come."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "download-row--bar", "download-row--rest", "download-row--source",
    }  # fmt: skip
    DEFAULT_CSS = """
    DownloadRow {
        height: 4;
        & > .download-row--bar { color: $primary; }
        & > .download-row--rest { color: $foreground 30%; }
        & > .download-row--source { color: $text-muted; }
    }
    """

    download: reactive[Download] = reactive(Download(""))

    def __init__(self, download: Download) -> None:
        super().__init__()
        self.model = download.model
        self.set_reactive(DownloadRow.download, download)

    def render(self) -> Content:
        download = self.download
        width = self.size.width
        full = int(download.fraction * width)
        return Content.assemble(
            (harmless(download.model), "bold"),
            (f"  from {download.source}" if download.source else "", self._style("source")),
            "\n",
            ("█" * full, self._style("bar")),
            ("░" * (width - full), self._style("rest")),
            "\n",
            _figures(download),
        )

    def _style(self, part: str) -> Style:
        return self.get_visual_style(f"download-row--{part}")


def _figures(download: Download) -> str:
    """How far a file has come, in words."""
    if not download.source:
        return "not here yet"
    if download.over:
        return f"{size_text(download.total)}, there and checked"
    if download.done >= download.total:
        return f"{size_text(download.total)}, being checked"
    parts = [f"{download.fraction:.0%}", f"{size_text(download.done)} of {size_text(download.total)}"]
    if download.speed is not None:
        parts.append(f"{download.speed / 1e6:.1f} MB/s")
    if download.seconds_left is not None:
        parts.append(f"{duration_text(download.seconds_left)} left")
    return "   ".join(parts)
