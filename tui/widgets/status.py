"""The first line of the screen: which models talk, and how full their context is."""

from __future__ import annotations

from typing import ClassVar, Final

from textual.content import Content
from textual.widget import Widget

from edge_spec import PairInfo

WIDE: Final = 100
"""From so many columns on, there is room for the panel beside the tokens."""


class TitleBar(Widget):
    """Target and draft at the left, the context at the right."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"title--model", "title--dim"}

    DEFAULT_CSS = """
    TitleBar {
        height: 1;
        padding: 0 1;
        .title--model { text-style: bold; }
        .title--dim { color: $text-muted; }
    }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._models = ("", "")
        self._used = ""

    def show_models(self, target: str, draft: str) -> None:
        """Their names; "" for a draft that is not there."""
        self._models = (target, draft)
        self.refresh()

    def show_context(self, text: str) -> None:
        if text != self._used:
            self._used = text
            self.refresh()

    def render(self) -> Content:
        target, draft = self._models
        model, dim = self.get_visual_style("title--model"), self.get_visual_style("title--dim")
        left = Content.styled(target, model)
        if draft:
            left = Content.assemble(left, Content.styled("  ←  ", dim), draft)
        # On a narrow screen the folded panel says it.
        used = self._used if self.size.width >= WIDE else ""
        right = Content.styled(f"context {used}" if used else "", dim)
        room = self.content_size.width - right.cell_length - 1
        left = left.truncate(max(room, 0), ellipsis=True)
        return Content.assemble(left, " " * (room + 1 - left.cell_length), right)


def model_names(info: PairInfo) -> tuple[str, str]:
    """Target and draft as the title shows them; the draft without what its name shares."""
    target = f"{info.target_name} {info.target_quantization}".strip()
    if info.draft_name is None:
        return target, ""
    own = info.draft_name.split("-")
    for part in info.target_name.split("-"):
        if len(own) > 1 and part == own[0]:
            del own[0]
        else:
            break
    return target, f"{'-'.join(own)} {info.draft_quantization or ''}".strip()
