"""This checkout's own arms: models loaded once, in this process, nothing reused between prompts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.samples import Prompt, Sample, Setting
from edge_spec import Decoding, Sampling
from edge_spec.planner.calibration import Calibration, keep

if TYPE_CHECKING:
    from edge_spec import Pair
    from edge_spec.config import DrafterName


@dataclass(slots=True)
class Ours:
    """This checkout, drafting at most `draft_max` tokens a round (0: plain)."""

    name: str
    pair: Pair
    setting: Setting
    draft_max: int
    drafter: DrafterName = "draft"
    reproducible: bool = True

    def run(self, prompt: Prompt, repetition: int) -> Sample:
        s = self.setting
        answer = self.pair.answer(
            prompt.messages,
            sampling=Sampling(temperature=s.temperature),
            decoding=Decoding(
                max_tokens=s.max_tokens,
                draft_max=self.draft_max,
                drafter=self.drafter,
                seed=s.seed + repetition,
                coupling="rejection",
                reproducible=self.reproducible,
            ),
            reuse_cache=False,
        )
        stats = answer.stats
        return Sample(
            decode_tokens=stats.completion_tokens - 1,
            decode_s=stats.decode_s,
            wall_tokens=stats.completion_tokens,
            wall_s=stats.wall_s,
            prompt_tokens=stats.prompt_tokens,
            drafted=stats.drafted,
            accepted=stats.accepted,
            rounds=stats.rounds,
            outside_s=stats.timers.sample_s + stats.rest_s,
            text=answer.text,
        )


def calibrate_anew(pair: Pair) -> None:
    """Measure what decodes cost, as a user's first start would, in place of what is remembered.

    The pair finds it when it first drafts by `auto`, and goes on learning from answer to answer.
    """
    calibration = Calibration(pair.target, pair.draft)
    for _ in calibration.steps():
        pass
    keep(calibration.knowledge, pair.target, pair.draft)
