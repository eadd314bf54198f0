"""Which file a model's name means."""

from __future__ import annotations

import os
from pathlib import Path

from edge_spec.errors import ModelFileError
from edge_spec.models.catalogue import Entry, HubEntry, catalogue
from edge_spec.models.discovery import find_file
from edge_spec.models.names import HubRef, file_stem, hub_ref, is_safe, split_of
from edge_spec.models.quants import PREFERRED
from edge_spec.models.records import Record, records_in
from edge_spec.models.store import gguf_files, store_path
from edge_spec.paths import user_path


def resolve_model(ref: str | Path) -> Path:
    """The file that `ref` means: a path, a name in the store, or one of another program's models.

    In the store, names are the catalogue's, `user/repo[:QUANT]`, and those of files, which may lack
    `.gguf`; of a split model it is the first part. Of the hub's models only what was pulled is
    found; without QUANT that is Q4_K_M, or the only one that is here. Raises ModelFileError with
    what to do.
    """
    text = str(ref)
    if not text:
        raise ModelFileError("The model's name is empty.")
    entry = catalogue().models.get(text)
    if entry is not None and (installed := _installed_entry(entry)) is not None:
        return installed
    for candidate in _candidates(text):
        if os.path.isfile(candidate):  # unlike Path's, never an error
            return candidate
    found = find_file(text)
    if found is not None and (found.record is None or found.record.is_whole(store_path())):
        return found.path
    if entry is not None:
        raise ModelFileError(f"{text} is not in the store yet: run `edge-spec models pull {text}`.")
    if os.path.isdir(text):
        raise ModelFileError(f"{text} is a folder; name a GGUF file in it.")
    if (pair := catalogue().pairs.get(text)) is not None:
        models = " and ".join(pair.models)
        raise ModelFileError(
            f'"{text}" is a pair, not one model: it stands for {models}; run and chat take --pair {text}.'
        )
    if (named := hub_ref(text)) is not None:
        return _pulled(named)
    raise ModelFileError(f'There is no model "{text}": {_suggestion(text)}')


def is_missing(ref: str) -> bool:
    """Whether a pull could bring this model, which is not here: of the catalogue, or of the hub."""
    entry = catalogue().models.get(ref)
    if entry is None and hub_ref(ref) is None:
        return False
    try:
        resolve_model(ref)
    except ModelFileError:
        return True
    return False


def _installed_entry(entry: Entry) -> Path | None:
    """The file of a catalogue entry, if it is in the store."""
    if isinstance(entry, HubEntry):
        return next((store_path() / record.files[0].file for record in _whole_ones(entry.ref)), None)
    path = store_path() / entry.file
    return path if os.path.isfile(path) else None


def _whole_ones(ref: HubRef) -> list[Record]:
    """The models of the hub that `ref` means and that were pulled to the end."""
    folder = store_path()
    return [record for record in records_in(folder) if record.means(ref) and record.is_whole(folder)]


def _pulled(ref: HubRef) -> Path:
    """The first file of a model that was pulled from the hub. Raises ModelFileError."""
    records = _whole_ones(ref)
    if ref.quant is None and len(records) > 1:
        records = [record for record in records if record.quant == PREFERRED] or records
    if len(records) == 1:
        return store_path() / records[0].files[0].file
    if records:
        names = ", ".join(record.name for record in records)
        raise ModelFileError(f"{ref} may mean {names}: name one of them.")
    raise ModelFileError(f"{ref} is not in the store yet: run `edge-spec models pull {ref}`.")


def _candidates(text: str) -> list[Path]:
    path = user_path(text)
    found = [path]
    if is_safe(text):
        found += [store_path() / text, store_path() / f"{text}.gguf"]
        found += [path for path in gguf_files() if split_of(path.name) and file_stem(path.name) == text]
    return found


def _suggestion(text: str) -> str:
    """The nearest names, or how to see them all."""
    import difflib  # slow to import, and only an error needs it

    if os.sep in text or text.endswith(".gguf"):
        known = [path.name for path in gguf_files()]
    else:
        known = [file_stem(path.name) for path in gguf_files()] + [*catalogue().models, *catalogue().pairs]
    near = difflib.get_close_matches(Path(text).name, known, n=3, cutoff=0.5)
    if near:
        return f"did you mean {' or '.join(near)}?"
    return "`edge-spec models list` shows the ones that are here, `edge-spec models pull NAME` gets one."
