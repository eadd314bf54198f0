"""Answers prompts with llama-cpp-python's `Llama` and its prompt lookup.

`python -m bench.lookup_child MODEL CONTEXT THREADS`; each line of stdin is a question in JSON
(ids, max_tokens, temperature, seed, sizes), each line of stdout an answer. Ends with stdin.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import llama_cpp
import numpy as np
import numpy.typing as npt
from llama_cpp.llama_speculative import LlamaPromptLookupDecoding


class Counting(LlamaPromptLookupDecoding):
    """Prompt lookup that counts how often it was asked, and what it drafted."""

    asked = 0
    drafted = 0

    def __call__(self, input_ids: npt.NDArray[np.intc], /, **kwargs: Any) -> npt.NDArray[np.intc]:
        found = super().__call__(input_ids, **kwargs)
        self.asked += 1
        self.drafted += len(found)
        return found


def answer(llama: llama_cpp.Llama, question: dict[str, Any]) -> dict[str, Any]:
    draft = Counting(*question["sizes"])
    llama.draft_model = draft
    llama.set_seed(question["seed"])
    llama.reset()  # type: ignore[no-untyped-call]
    vocab = llama_cpp.llama_model_get_vocab(llama.model)
    ids: list[int] = []
    first_s = 0.0
    started = time.perf_counter()
    for token in llama.generate(question["ids"], temp=question["temperature"]):
        ids.append(token)
        if len(ids) == 1:
            first_s = time.perf_counter() - started
        if len(ids) == question["max_tokens"] or llama_cpp.llama_vocab_is_eog(vocab, token):
            break
    wall_s = time.perf_counter() - started
    # It asks for a draft before every decode but the prompt's.
    return {
        "ids": ids,
        "first_s": first_s,
        "wall_s": wall_s,
        "drafted": draft.drafted,
        "decodes": 1 + draft.asked,
    }


def main(path: str, context_size: str, threads: str) -> None:
    # stdout carries answers only, whatever a library prints.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    llama = llama_cpp.Llama(
        path,
        n_ctx=int(context_size),
        n_threads=int(threads),
        n_threads_batch=int(threads),
        n_gpu_layers=-1,
        # Without it the buffer has too few rows for the drafts.
        logits_all=True,
        draft_model=Counting(),
        verbose=False,
    )
    for line in sys.stdin:
        print(json.dumps(answer(llama, json.loads(line))), file=answers)


if __name__ == "__main__":
    main(*sys.argv[1:])
