"""From a name to the files it stands for, with their sizes and sha256, before a byte is fetched."""

from __future__ import annotations

import hashlib
import os
import urllib.parse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from edge_spec.errors import Cancelled, FetchError, ModelFileError, SettingError
from edge_spec.models.catalogue import Catalogue, HubEntry, HubSource, ModelEntry, PathSource
from edge_spec.models.hub import Hub, Repo
from edge_spec.models.job import SourceFailed, WantedFile, chunks_of
from edge_spec.models.names import (
    DEFAULT_REVISION,
    HubRef,
    file_stem,
    hub_ref,
    is_repo,
    require_safe,
    split_of,
)
from edge_spec.models.quants import Choice, choose, models_in, name_among
from edge_spec.models.records import Record, records_in
from edge_spec.paths import user_path

FILE = "file:"
"""What a name begins with that means a file on this machine."""

_LEAST_OF_COMMIT = 7
"""Fewer digits than git shows of a commit may well be a branch."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A model to bring into the store: all its files, in order, and where they come from.

    `name` is what its record is called, `label` what progress calls it: the name that was asked
    for. `notes` are sentences for whoever asked: what was chosen, and why.
    """

    label: str
    name: str
    files: tuple[WantedFile, ...]
    licence: str | None
    repo: str | None = None
    commit: str | None = None
    quant: str | None = None
    revision: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def source(self) -> str:
        """Where the first try goes."""
        return self.files[0].sources[0].label


@dataclass(frozen=True, slots=True)
class Finder:
    """Finds out what names stand for; asks the hub where the catalogue does not know."""

    models: Catalogue
    folder: Path
    hub: Hub
    cancelled: Callable[[], bool]
    revision: str | None = None

    def find(self, name: str) -> list[Wanted]:
        """The models of a catalogue name, a `user/repo[:QUANT]` or a `file:` path; a pair's target
        comes first.

        Raises SettingError (no such name or quantisation), ModelFileError, FetchError or Cancelled.
        """
        check_name(name, self.models)
        if name.startswith(FILE):
            return [self._local(name)]
        if name not in self.models.pairs and name not in self.models.models:
            ref = hub_ref(name)
            assert ref is not None, "check_name lets nothing else through"
            return [self._from_hub(name, ref, self.revision or DEFAULT_REVISION, None)]
        return [self._entry(entry) for entry in self.models.expand(name)]

    def _entry(self, entry: ModelEntry | HubEntry) -> Wanted:
        """A model of the catalogue."""
        if isinstance(entry, HubEntry):
            return self._from_hub(entry.name, entry.ref, self.revision or entry.revision, entry.licence)
        self._require_no_revision(entry.name)
        file = WantedFile(entry.name, entry.file, entry.size, entry.sha256, entry.sources)
        return Wanted(entry.name, entry.name, (file,), entry.licence)

    def _from_hub(self, label: str, ref: HubRef, revision: str, licence: str | None) -> Wanted:
        known = [
            record for record in records_in(self.folder) if record.means(ref) and _is_of(record, revision)
        ]
        try:
            repo = self.hub.look(ref.repo, revision, self.cancelled)
        except SourceFailed as failure:
            if len(known) == 1 and self.hub.unreachable is not None:
                return _as_recorded(label, known[0], str(failure))
            raise FetchError(f"{ref} cannot be had from the hub: {str(failure).removesuffix('.')}.") from None
        if repo.cached and len(known) == 1:
            return _as_recorded(label, known[0], "it is out of reach")
        try:
            choice = choose(ref, repo.files)
        except SettingError as error:
            if not repo.cached:
                raise
            raise FetchError(f"The hub is out of reach, and its cache here does not help: {error}") from None
        return _of_repo(label, repo, revision, choice, licence)

    def _local(self, name: str) -> Wanted:
        """A file on this machine, with the other parts if it is one of a split model."""
        self._require_no_revision(name)
        path = local_path(name)
        files = [path.with_name(part) for part in _part_names(path.name)]
        label = file_stem(path.name)
        wanted = []
        for number, file in enumerate(files, 1):
            called = label if len(files) == 1 else f"{label} ({number} of {len(files)})"
            # Only what ends so is a model in the store; Ollama's files are called by their digest.
            stored = file.name if file.suffix.lower() == ".gguf" else f"{file.name}.gguf"
            require_safe(stored, str(file))
            size, sha256 = self._hash(file)
            wanted.append(WantedFile(called, stored, size, sha256, (PathSource(str(file)),), replaces=False))
        return Wanted(name, label, tuple(wanted), None)

    def _require_no_revision(self, name: str) -> None:
        if self.revision is not None:
            raise SettingError(
                f'--revision is for what the hub alone describes, but the bytes of "{name}" are settled: '
                "leave it out."
            )

    def _hash(self, path: Path) -> tuple[int, str]:
        digest = hashlib.sha256()
        try:
            with path.open("rb") as file:
                if file.read(4) != b"GGUF":
                    raise ModelFileError(f"{path} is not a GGUF file, so it is not taken into the store.")
                file.seek(0)
                for chunk in chunks_of(file):
                    digest.update(chunk)
                    if self.cancelled():
                        raise Cancelled()
                return file.tell(), digest.hexdigest()
        except OSError as error:
            raise ModelFileError(f"{path} cannot be read: {error.strerror or error}.") from None


def check_name(name: str, models: Catalogue) -> None:
    """Raise SettingError unless `name` has a form that a pull understands; asks nobody."""
    if name in models.pairs or name in models.models or name.startswith(FILE):
        return
    if (ref := hub_ref(name)) is not None:
        if not is_repo(ref.repo):
            raise SettingError(
                f'The hub has no repository "{ref.repo}": it allows no "--" in a name, no ".git" or "-" at '
                "its end, and at most 96 characters for user and repository each."
            )
        return
    if os.path.isfile(user_path(name)):
        raise SettingError(
            f'"{name}" is a path: {FILE}{name} takes a file into the store, -m uses it as it is.'
        )
    if os.sep in name or name.lower().endswith(".gguf"):
        raise SettingError(f'"{name}" is neither user/repo[:QUANT] nor a file that is here.')
    models.expand(name)


def local_path(name: str) -> Path:
    """The path of a `file:` name or address; `~` and variables are expanded."""
    text = name.removeprefix(FILE)
    if text.startswith("//"):
        text = urllib.parse.unquote(text.removeprefix("//").removeprefix("localhost"))
    return user_path(os.path.expandvars(text))


def _part_names(name: str) -> list[str]:
    split = split_of(name)
    return [name] if split is None else split.names


def _is_of(record: Record, revision: str) -> bool:
    """Whether a record will do for a revision that cannot be looked up; any will for the default one."""
    by_commit = len(revision) >= _LEAST_OF_COMMIT and (record.commit or "").startswith(revision)
    return by_commit or revision in (DEFAULT_REVISION, record.revision)


def _of_repo(label: str, repo: Repo, revision: str, choice: Choice, licence: str | None) -> Wanted:
    """The chosen model of a repository, each file pinned to the repository's commit."""
    model = choice.model
    for file in model.files:
        require_safe(file.path, repo.name)
        if file.sha256 is None:
            raise FetchError(
                f"The hub tells no sha256 of {file.path} in {repo.name}, so it cannot be checked."
            )
    ref = HubRef(repo.name, name_among(model, models_in(repo.files)))
    files = tuple(
        WantedFile(
            str(ref) if len(model.files) == 1 else f"{ref} ({number} of {len(model.files)})",
            f"{repo.name}/{file.path}",
            file.size,
            file.sha256 or "",
            (HubSource(repo.name, file.path, repo.commit),),
        )
        for number, file in enumerate(model.files, 1)
    )
    return Wanted(
        label,
        str(ref),
        files,
        repo.licence or licence,
        repo.name,
        repo.commit,
        model.label,
        revision,
        tuple(_notes(repo, ref, choice.reason)),
    )


def _notes(repo: Repo, ref: HubRef, reason: str | None) -> Iterator[str]:
    if reason is not None:
        yield f"Of {repo.name}, {reason} is taken: {ref}."
    if repo.cached:
        yield f"The hub is out of reach; what its cache here has of {repo.name} is used."


def _as_recorded(label: str, record: Record, why: str) -> Wanted:
    """A model as it was pulled before, when the hub cannot be asked for anything newer."""
    assert record.repo is not None and record.commit is not None, "only records of the hub are named so"
    files: Sequence[WantedFile] = [
        WantedFile(
            record.name if len(record.files) == 1 else f"{record.name} ({number} of {len(record.files)})",
            file.file, file.size, file.sha256,
            (HubSource(record.repo, file.file.removeprefix(f"{record.repo}/"), record.commit),),
        )
        for number, file in enumerate(record.files, 1)
    ]  # fmt: skip
    note = f"The hub was not asked for a newer {record.name} ({why})."
    return Wanted(
        label,
        record.name,
        tuple(files),
        record.licence,
        record.repo,
        record.commit,
        record.quant,
        record.revision,
        (note,),
    )
