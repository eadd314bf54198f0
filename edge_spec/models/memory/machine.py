"""What a machine offers to models: memory, GPUs, and what its CPU makes llama.cpp rearrange."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from edge_spec.limits import usable_memory
from edge_spec.types import Device

_ASK_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Machine:
    """Memory in bytes, swap not counted; the GPUs that llama.cpp computes on, in its order.

    `features` are llama.cpp's names of what its build uses of the CPU (AVX2, NEON, REPACK, ...).
    """

    total: int
    available: int
    devices: tuple[Device, ...] = ()
    features: frozenset[str] = frozenset()

    @property
    def repacks(self) -> bool:
        """Whether weights may get a second, rearranged copy: not without REPACK, nor with AMX
        (which we keep out by refusing all extra buffers)."""
        return "REPACK" in self.features and "AMX_INT8" not in self.features

    def device(self, name: str) -> Device | None:
        return next((device for device in self.devices if device.name == name), None)


def make_machine(devices: Iterable[Device], features: Iterable[str]) -> Machine:
    """The memory that this process may use, with what llama.cpp said about itself.

    Integrated GPUs count only where there is no other (llama.cpp's src/llama.cpp).
    """
    memory = usable_memory()
    found = tuple(devices)
    kind = "gpu" if any(device.kind == "gpu" for device in found) else "igpu"
    used = tuple(device for device in found if device.kind == kind)
    return Machine(memory.total, memory.available, used, frozenset(features))


def this_machine() -> Machine:
    """This machine, with llama.cpp asked in a process of its own, since it can end the one it is in.

    It is asked once, and again each time only where GPUs have memory of their own to be filled.
    A llama.cpp that does not answer leaves devices and features empty.
    """
    known = _ask_once()
    return make_machine(*(_ask() if known[0] else known))


@functools.cache
def _ask_once() -> tuple[tuple[Device, ...], frozenset[str]]:
    return _ask()


def _ask() -> tuple[tuple[Device, ...], frozenset[str]]:
    command = [sys.executable, "-P", "-m", "edge_spec.llama.probe"]
    try:
        answer = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_ASK_SECONDS, check=True
        )
        found: dict[str, Any] = json.loads(answer.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return (), frozenset()
    devices = tuple(Device(**device) for device in found["devices"])
    return tuple(device for device in devices if device.kind != "cpu"), frozenset(found["features"])


def less_taken(machine: Machine, taken: dict[str, int]) -> Machine:
    """The machine after a model took `taken` bytes of its devices, by name."""
    devices = tuple(
        replace(device, free_bytes=max(0, device.free_bytes - taken.get(device.name, 0)))
        for device in machine.devices
    )
    return replace(machine, devices=devices)
