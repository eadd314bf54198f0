"""llama-cpp-python's own speculation: prompt lookup in its high-level `Llama`, in a child process.

Its draft is copied from the earliest match in the text, and every row's logits are copied into a
buffer of context x vocabulary. The child (`bench.lookup_child`) is asked a line and answers one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.processes import Service
from bench.samples import BenchError, Prompt, Sample, Setting

DEFAULT_SIZES = (2, 10)
"""llama-cpp-python's own: the longest words to match, the words to draft."""


class LookupChild:
    """A process that holds the target in a `Llama`; started by its first question.

    The buffer has a row for every cell, so `context_size` is what the prompts need.
    """

    def __init__(self, setting: Setting, context_size: int) -> None:
        self._setting = setting
        self._context_size = context_size
        self._service: Service | None = None

    def ask(self, question: dict[str, object]) -> dict[str, object]:
        if self._service is None:
            s = self._setting
            self._service = Service(
                "llama-cpp-python",
                "bench.lookup_child",
                str(s.target),
                str(self._context_size),
                str(s.threads),
            )
        answer = json.loads(self._service.ask(json.dumps(question)))
        assert isinstance(answer, dict)
        return answer

    def close(self) -> None:
        if self._service is not None:
            self._service.close()
            self._service = None


@dataclass(slots=True)
class Lookup:
    """Prompt lookup that matches at most sizes[0] tokens and drafts at most sizes[1]."""

    name: str
    child: LookupChild
    setting: Setting
    encode: Callable[[Prompt], list[int]]
    decode: Callable[[Sequence[int]], str]
    sizes: tuple[int, int] = DEFAULT_SIZES

    def run(self, prompt: Prompt, repetition: int) -> Sample:
        s, ids = self.setting, self.encode(prompt)
        question = {
            "ids": ids,
            "max_tokens": s.max_tokens,
            "temperature": s.temperature,
            "seed": s.seed + repetition,
            "sizes": self.sizes,
        }
        return parse_lookup(self.child.ask(question), len(ids), self.decode)


def parse_lookup(
    answer: dict[str, object], prompt_tokens: int, decode: Callable[[Sequence[int]], str]
) -> Sample:
    """What the child answered. Every decode but the first, the prompt's, judged a draft."""
    match answer:
        case {
            "ids": list(ids),
            "first_s": float(first_s),
            "wall_s": float(wall_s),
            "drafted": int(drafted),
            "decodes": int(decodes),
        }:
            return Sample(
                decode_tokens=len(ids) - 1,
                decode_s=wall_s - first_s,
                wall_tokens=len(ids),
                wall_s=wall_s,
                prompt_tokens=prompt_tokens,
                drafted=drafted,
                accepted=len(ids) - decodes,  # a decode emits what it accepted, and one token more
                rounds=decodes,
                text=decode(ids),
            )
    raise BenchError(f"llama-cpp-python's child said what is not understood: {str(answer)[:2000]}")
