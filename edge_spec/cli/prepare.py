"""From settings to models that are here, fit together and fit in memory, before anything loads."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edge_spec.config import Decoding
from edge_spec.errors import SettingError
from edge_spec.settings import Settings

if TYPE_CHECKING:
    from edge_spec.models.catalogue import ModelEntry


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """The files of a target and its draft, if there is one; both readable and fit to pair."""

    target: Path
    draft: Path | None


def prepare_models(settings: Settings, decoding: Decoding, *, quiet: bool) -> ModelFiles:
    """Find the models that the settings name, fetch what the catalogue offers, check the pair.

    With K = 0 no draft is looked for. Raises ModelError or FetchError.
    """
    from edge_spec.models import store
    from edge_spec.models.header import read_header
    from edge_spec.models.pairing import check_pair, raise_if_incompatible

    target_ref, draft_ref = _references(settings, decoding)
    _fetch_missing([ref for ref in (target_ref, draft_ref) if ref is not None], quiet=quiet)
    target = store.resolve(target_ref)
    draft = store.resolve(draft_ref) if draft_ref is not None else None
    target_header = read_header(target)
    if draft is not None:
        raise_if_incompatible(check_pair(target_header, read_header(draft)))
    return ModelFiles(target, draft)


def load_options(settings: Settings) -> dict[str, Any]:
    """What `load_pair` takes besides the two files."""
    return {
        "context_size": settings["ctx-size"],
        "threads": settings["threads"],
        "threads_batch": settings["threads-batch"],
        "gpu_layers": settings["gpu-layers"],
        "draft_gpu_layers": settings["gpu-layers-draft"],
        "device": settings["device"],
        "draft_device": settings["device-draft"],
        "kv_type_k": settings["cache-type-k"],
        "kv_type_v": settings["cache-type-v"],
        "flash_attention": settings["flash-attn"],
    }


def _references(settings: Settings, decoding: Decoding) -> tuple[str, str | None]:
    """The names of target and draft: -m and -md, and what the pair has where they are silent.

    A target of the user's own has no draft unless -md names one: the pair's would rarely fit.
    """
    from edge_spec.models.catalogue import catalogue

    target, draft = settings["model"], settings["draft-model"]
    if target is None:
        name = settings["pair"]
        pair = catalogue().pairs.get(name)
        if pair is None:
            known = ", ".join(catalogue().pairs)
            raise SettingError(f'There is no pair called "{name}"; there are {known}.')
        target = pair.target
        draft = draft or pair.draft
    return target, draft if decoding.draft_max else None


def _fetch_missing(refs: list[str], *, quiet: bool) -> None:
    """Pull the catalogue's models that are named and not in the store yet."""
    from edge_spec.models import store
    from edge_spec.models.catalogue import catalogue

    entries: list[ModelEntry] = []
    for ref in dict.fromkeys(refs):
        entry = catalogue().models.get(ref)
        if entry is not None and not (store.store_path() / entry.file).is_file():
            entries.append(entry)
    if entries:
        from edge_spec.cli.progress import pull_all

        names = {entry.name for entry in entries}
        pairs = (pair.name for pair in catalogue().pairs.values() if set(pair.models) == names)
        pull_all(entries, quiet=quiet, pair=next(pairs, None))
