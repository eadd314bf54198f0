"""What llama.cpp finds on this machine, as a line of JSON: run as a program by who must not load it."""

from __future__ import annotations

import json
from dataclasses import asdict

from edge_spec.llama import abi


def main() -> None:
    """Print devices and CPU features."""
    devices = [asdict(device) for device in abi.devices()]
    print(json.dumps({"devices": devices, "features": abi.cpu_features()}))


if __name__ == "__main__":
    main()
