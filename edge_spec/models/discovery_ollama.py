"""Models in Ollama's store: manifests name layers by digest, and a digest is a file among the blobs.

Layout (Ollama's server/manifest.go): manifests/HOST/NAMESPACE/MODEL/TAG is JSON whose `layers` have
a `mediaType` and a `digest` "sha256:HEX"; the layer lies in blobs/sha256-HEX. Nothing in a manifest
is trusted: only a digest of 64 hex digits becomes a file name.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from edge_spec.models.discovery import FoundFile, folder_from, home

MAX_MANIFEST_BYTES: Final = 1 << 20
MAX_MANIFESTS: Final = 10_000
MODEL_LAYER: Final = "application/vnd.ollama.image.model"

_DIGEST: Final = re.compile(r"sha256[:-]([0-9a-f]{64})")
_HOST: Final = "registry.ollama.ai"
_NAMESPACE: Final = "library"
_TAG: Final = "latest"


def ollama_files() -> Iterator[FoundFile]:
    """The models in Ollama's stores, by name; of two names for one blob the first in order counts."""
    for root in ollama_folders():
        for manifest in sorted(_manifests(root / "manifests")):
            blob = _blob(root, manifest)
            if blob is not None:
                yield FoundFile(blob, "Ollama", _names(manifest.relative_to(root / "manifests").parts))


def ollama_folders() -> list[Path]:
    """Where Ollama keeps models: as a user's program, and as a service on Linux."""
    chosen = folder_from("OLLAMA_MODELS")
    if chosen is not None:
        return [chosen]
    folders = [home() / ".ollama" / "models"]
    if sys.platform.startswith("linux"):
        folders.append(Path("/usr/share/ollama/.ollama/models"))
    return folders


def _manifests(folder: Path) -> Iterator[Path]:
    """Files that lie as deep as a manifest does: HOST/NAMESPACE/MODEL/TAG."""
    left = MAX_MANIFESTS
    waiting = [(folder, 0)]
    while waiting:
        place, depth = waiting.pop()
        try:
            with os.scandir(place) as entries:
                for entry in entries:
                    left -= 1
                    if left < 0:
                        return
                    if depth < 3 and entry.is_dir():
                        waiting.append((place / entry.name, depth + 1))
                    elif depth == 3 and entry.is_file():
                        yield place / entry.name
        except OSError:
            continue


def _blob(root: Path, manifest: Path) -> Path | None:
    """The file with the weights that a manifest names, if there is one."""
    try:
        if manifest.stat().st_size > MAX_MANIFEST_BYTES:
            return None
        content = json.loads(manifest.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    layers = content.get("layers") if isinstance(content, dict) else None
    for layer in layers if isinstance(layers, list) else ():
        if not isinstance(layer, dict) or layer.get("mediaType") != MODEL_LAYER:
            continue
        digest = layer.get("digest")
        found = _DIGEST.fullmatch(digest) if isinstance(digest, str) else None
        if found is None:
            continue
        blob = root / "blobs" / f"sha256-{found[1]}"
        try:
            if stat.S_ISREG(blob.stat().st_mode):
                return blob
        except OSError:
            continue
    return None


def _names(parts: tuple[str, ...]) -> tuple[str, ...]:
    """`qwen2.5:7b` as Ollama shows it; the tag `latest` may be left out."""
    host, namespace, model, tag = parts
    if host != _HOST:
        model = f"{host}/{namespace}/{model}"
    elif namespace != _NAMESPACE:
        model = f"{namespace}/{model}"
    full = f"{model}:{tag}"
    return (model, full) if tag == _TAG else (full,)
