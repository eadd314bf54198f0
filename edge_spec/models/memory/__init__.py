"""How much memory models will take, foreseen from their headers before llama.cpp tries.

A wrong "no" is worse than none: only what surely does not fit is refused, by a lower bound in
which mapped weights count against the machine's whole memory alone, since the system can drop
their pages. What probably does not fit gets a warning.
"""

from __future__ import annotations

from edge_spec.errors import MemoryForeseenError
from edge_spec.models.memory.advice import Saving, advice, savings
from edge_spec.models.memory.machine import Machine, make_machine, this_machine
from edge_spec.models.memory.plan import MemoryPlan, ModelMemory, Part, Request, plan_memory

__all__ = [
    "Machine",
    "MemoryPlan",
    "ModelMemory",
    "Part",
    "Request",
    "Saving",
    "advice",
    "check_memory",
    "make_machine",
    "plan_memory",
    "savings",
    "this_machine",
]


def check_memory(requests: list[Request], machine: Machine) -> MemoryPlan:
    """The plan; MemoryForeseenError, naming needed, free and what to lower, if it surely cannot work."""
    plan = plan_memory(requests, machine)
    if plan.verdict == "too small":
        raise MemoryForeseenError(advice(requests, plan))
    return plan
