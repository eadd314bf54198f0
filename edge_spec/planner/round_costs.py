"""What drafting adds to the time of the round that is being planned."""

from __future__ import annotations

from dataclasses import dataclass

from edge_spec.planner.knowledge import Knowledge


@dataclass(frozen=True, slots=True)
class RoundCosts:
    """Seconds of one slot's draft, beyond those of a round without it.

    `num_rows` are decoded in any case: all slots' pending rows, and what other slots draft.
    `num_drafting` other slots draft with the model, whose steps decode all slots at once.
    `num_cells` are behind the rows. `choosing_s` is what sampling takes for each drafted token, the
    draft's draw and the target's judgement together: much with a large vocabulary and no top-k.
    """

    knowledge: Knowledge
    num_cells: int
    num_rows: int = 1
    num_drafting: int = 0
    choosing_s: float = 0.0

    @property
    def base_s(self) -> float:
        """The target's decode without this slot's draft."""
        return self.knowledge.verify(self.num_rows, self.num_cells)

    def verify_s(self, num_drafted: int) -> float:
        """Verifying so many drafted tokens, and reading again what a rejection costs the cache."""
        verify, cells = self.knowledge.verify, self.num_cells
        seconds = verify(self.num_rows + num_drafted, cells) - self.base_s + num_drafted * self.choosing_s
        replayed = round(self.knowledge.replayed * num_drafted)
        return seconds + verify(1 + replayed, cells) - verify(1, cells) if replayed else seconds

    def read_s(self, num_tokens: int) -> float:
        """The draft model's decode of so many tokens of this slot."""
        draft = self.knowledge.draft
        assert draft is not None, "there is a draft model"
        others = draft(self.num_drafting, self.num_cells) if self.num_drafting else 0.0
        return draft(self.num_drafting + num_tokens, self.num_cells) - others

    def draft_s(self, num_drafted: int) -> float:
        """Drafting so many tokens with the model and verifying them."""
        return num_drafted * self.read_s(1) + self.verify_s(num_drafted)
