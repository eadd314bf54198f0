"""The whole forging of one draft: sample, requantise, drop layers, trim, measuring after each step."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from edge_spec.api import LoadedModel, token_map
from edge_spec.cancel import Cancel
from edge_spec.config import ModelSettings
from edge_spec.errors import Cancelled, OutputError, SettingError
from edge_spec.forge.gain import Gain, best_gain, layers_share
from edge_spec.forge.layers import Trial, choose, search
from edge_spec.forge.measure import Acceptance, Drafting, acceptance, acceptances, row_times, step_times
from edge_spec.forge.recipe import Recipe
from edge_spec.forge.rewrite import Edit, rewrite
from edge_spec.forge.samples import Sample, generate_samples, shortened
from edge_spec.forge.scratch import Scratch
from edge_spec.forge.vocabulary import Vocabulary, check_trimmable, trim
from edge_spec.llama import abi
from edge_spec.llama.quantize import quantize
from edge_spec.llama.skip import LayerSkip
from edge_spec.models import store
from edge_spec.models.header import Header, check_loadable, read_header
from edge_spec.models.memory import Request, check_memory, make_machine
from edge_spec.models.pairing import check_pair, raise_if_incompatible
from edge_spec.types import Message

CANDIDATES: tuple[tuple[str, str | None], ...] = (
    ("Q4_0", None),
    ("Q4_0", "Q4_0"),
    ("Q4_K_S", None),
    ("Q8_0", None),
)
"""Types that are tried, and the output matrix's where it is not llama.cpp's choice.

Each is the fastest on some machine, none loses much, and all are written in seconds (the IQ types
take minutes). In a small draft with many tokens the output matrix is much of what a step reads.
"""

SIZES = (8_192, 16_384, 24_576, 32_768, 49_152, 65_536)
"""Numbers of tokens that are considered for a trimmed vocabulary."""

MOST_ROWS = 9
"""The target is timed with up to so many rows, so drafts of one less are considered."""

_STEPS, _ROUNDS = 40, 5
_SLOTS, _CONTEXT = 8, 1024
_TRIALS, _TRIAL_TOKENS = 12, 24
"""Samples, and tokens of each, that a block of layers is tried on."""


class Reporter(Protocol):
    """Is told how forging goes."""

    def status(self, text: str) -> None:
        """What is being done now; comes often."""
        ...

    def stage(self, stage: Stage) -> None:
        """A file was made and measured."""
        ...

    def note(self, text: str) -> None:
        """Something worth knowing, once."""
        ...


@dataclass(frozen=True, slots=True)
class ForgeSettings:
    """What to make of which draft for which target.

    `type_name` is "auto" (measured), "keep", or a type. `num_tokens` None is chosen, 0 leaves the
    vocabulary whole. `num_dropped` None is chosen, 0 leaves all layers. Steps that are chosen are
    taken only if they raise the expected speed-up.
    """

    target: Path
    draft: Path
    output: Path | None
    prompts: Sequence[Sequence[Message]]
    type_name: str = "auto"
    num_tokens: int | None = None
    num_dropped: int | None = 0
    sample_tokens: int = 64
    threads: int | None = None
    force: bool = False


@dataclass(slots=True, eq=False)
class Stage:
    """A draft and what was measured of it.

    `step_s` is one draft step's time, in alternation with the draft as given. `coverage` is the
    share of the target's tokens that a trimmed vocabulary has; it and that acceptance are of
    samples that the choice of tokens did not see. `taken` says that it leads to the result.
    """

    name: str
    header: Header
    step_s: float
    acceptance: Acceptance
    gain: Gain
    coverage: float | None = None
    taken: bool = True


@dataclass(frozen=True, slots=True)
class ForgeReport:
    """What forging came to. `path` is None when nothing that was tried is better than the draft as given.

    `stages` has everything that was tried, the draft as given first, `best` is the one taken.

    `target_s[n - 1]` is the target's time for n rows, in seconds; `num_positions` counts the
    sample tokens that acceptance was measured on.
    """

    path: Path | None
    stages: tuple[Stage, ...]
    best: Stage
    target_s: tuple[float, ...]
    num_positions: int
    recipe: Recipe | None

    @property
    def taken(self) -> list[Stage]:
        """The steps that led to the result, the draft as given first."""
        return [stage for stage in self.stages if stage.taken]


class Forge:
    """One forging; `cancel` stops it between decodes and tensors, and then nothing is left behind."""

    def __init__(self, settings: ForgeSettings, cancel: Cancel, reporter: Reporter) -> None:
        self._settings = settings
        self._cancel = cancel
        self._tell = reporter
        self._target = _sound(settings.target)
        self._source = _sound(settings.draft)
        raise_if_incompatible(check_pair(self._target, self._source))
        if self._source.num_splits > 1:
            raise SettingError(f"{settings.draft} is in {self._source.num_splits} parts: merge them first.")
        if settings.num_tokens != 0:
            check_trimmable(self._source)
        if settings.num_dropped and settings.num_dropped > self._source.num_layers - 2:
            raise SettingError(
                f"--drop-layers is {settings.num_dropped}, but {self._source.name} has "
                f"{self._source.num_layers} layers, of which the first and the last stay."
            )
        if settings.output is not None and settings.output.is_dir():
            raise OutputError(f"{settings.output} is a folder: name a file in it.")
        if settings.output is not None and settings.output.exists() and not settings.force:
            raise OutputError(f"{settings.output} exists already; --force replaces it.")
        self._folder = store.store_path() if settings.output is None else settings.output.absolute().parent
        self._scratch = Scratch(self._folder, self._source, create=settings.output is None)
        self._loaded: LoadedModel
        self._given: Drafting
        self._samples: Sequence[Sample] = ()
        self._target_s: Sequence[float] = ()
        self._stages: list[Stage] = []
        self._layers: tuple[int, ...] = ()
        self._type: str | None = None
        self._num_tokens: int | None = None

    def clear(self) -> None:
        """Remove what was made on the way; for a sudden end of the process."""
        self._scratch.clear()

    def run(self) -> ForgeReport:
        """Forge. Raises ModelError, NoSpaceError, OutputError, SettingError and Cancelled."""
        with contextlib.ExitStack() as loaded:
            scratch = loaded.enter_context(self._scratch)
            self._loaded = self._load_target(loaded)
            self._sample()
            self._given = loaded.enter_context(self._drafting(self._source))
            best = self._measured("as given", self._source)
            best = self._requantise(scratch, best)
            best = self._drop_layers(scratch, best)
            best = self._trim(scratch, best)
            return self._finish(scratch, best)

    # -- what is measured with

    def _load_target(self, loaded: contextlib.ExitStack) -> LoadedModel:
        s = self._settings
        settings = ModelSettings(s.target, context_size=_CONTEXT, num_slots=_SLOTS, threads=s.threads)
        draft = ModelSettings(s.draft, context_size=_CONTEXT, threads=s.threads)
        requests = [Request(settings, self._target), Request(draft, self._source)]
        check_memory(requests, make_machine(abi.devices(), abi.cpu_features()))
        self._tell.status("loading the target")
        model = LoadedModel(settings, self._target, self._cancel, self._while_loading)
        loaded.callback(model.close)
        return model

    def _sample(self) -> None:
        self._tell.status("timing the target")
        self._target_s = row_times(self._loaded.cache, MOST_ROWS, _ROUNDS)
        self._samples = generate_samples(
            self._loaded,
            self._settings.prompts,
            self._settings.sample_tokens,
            lambda done, total: self._tell.status(f"the target writes samples: {done} of {total}"),
        )
        if not self._samples:
            raise SettingError("The target answered every prompt with nothing: give other prompts.")

    @contextlib.contextmanager
    def _drafting(self, header: Header, skip: LayerSkip | None = None) -> Iterator[Drafting]:
        settings = ModelSettings(header.path, context_size=2 * _CONTEXT, threads=self._settings.threads)
        model = LoadedModel(settings, header, self._cancel, self._while_loading, skip)
        try:
            mapped = token_map(check_pair(self._target, header), self._loaded.model, header, model.model)
            yield Drafting(model.cache, mapped, self._loaded.model.num_vocab)
        finally:
            model.close()

    def _while_loading(self, _fraction: float) -> None:
        if self._cancel.is_set:
            raise Cancelled

    def _step_s(self, draft: Drafting) -> float:
        """One step's time, at the speed that the machine had when the draft as given was timed."""
        if draft is self._given:
            return step_times([draft.cache], _STEPS)[0]
        given, own = step_times([self._given.cache, draft.cache], _STEPS)
        return own / given * self._stages[0].step_s

    def _measured(self, name: str, header: Header) -> Stage:
        """Time a file and read the samples with it."""
        self._tell.status(f"measuring the draft {name}")
        with contextlib.ExitStack() as loaded:
            given = not self._stages
            draft = self._given if given else loaded.enter_context(self._drafting(header))
            return self._added(name, header, self._step_s(draft), acceptance(draft, self._samples))

    def _added(
        self, name: str, header: Header, step_s: float, found: Acceptance, coverage: float | None = None
    ) -> Stage:
        gain = best_gain(found.sampled, step_s, self._target_s)
        stage = Stage(name, header, step_s, found, gain, coverage)
        self._stages.append(stage)
        self._tell.stage(stage)
        return stage

    # -- the steps: each gives back the better of what it got and what it made

    def _requantise(self, scratch: Path, best: Stage) -> Stage:
        wanted = self._settings.type_name
        if wanted == "keep":
            return best
        given = self._source.quantization
        for kind, output in CANDIDATES if wanted == "auto" else ((wanted.upper(), None),):
            if wanted == "auto" and (kind, output) == (given, None):
                continue
            name = kind if output is None else f"{kind} with output {output}"
            path = scratch / f"{name}.gguf"
            quantize(
                self._source.path,
                path,
                kind,
                output_type=output,
                threads=self._settings.threads or 0,
                progress=lambda done, total, name=name: self._tell.status(  # type: ignore[misc]
                    f"writing it as {name}: {done} of {total} tensors"
                ),
                cancelled=lambda: self._cancel.is_set,
            )
            stage = self._measured(f"as {name}", read_header(path))
            if wanted != "auto" or stage.gain.speedup > best.gain.speedup:
                if best is not self._stages[0]:
                    _reject(best, scratch)
                best, self._type = stage, name
            else:
                _reject(stage, scratch)
        return best

    def _drop_layers(self, scratch: Path, best: Stage) -> Stage:
        wanted = self._settings.num_dropped
        if wanted == 0:
            return best
        trials = self._try_layers(best, wanted)
        chosen = choose(trials, wanted)
        if chosen is None or (wanted is None and chosen.gain.speedup <= best.gain.speedup):
            self._tell.note("No block of layers can be left out with a gain.")
            return best
        dropped = tuple(range(chosen.first, chosen.end))
        header = self._written(scratch, "layers", best.header, Edit(dropped_layers=dropped))
        stage = self._measured(f"without layers {dropped[0]} to {dropped[-1]}", header)
        if wanted is None and stage.gain.speedup <= best.gain.speedup:
            _reject(stage, scratch)
            return best
        _forget(best, scratch)
        self._layers = dropped
        return stage

    def _try_layers(self, best: Stage, wanted: int | None) -> list[Trial]:
        """Trials on the samples' beginnings, without a file for each: the layers are skipped."""
        skip = LayerSkip()
        every = max(1, len(self._samples) // _TRIALS)
        samples = [shortened(sample, _TRIAL_TOKENS) for sample in self._samples[::every]]
        share = layers_share(best.header) / best.header.num_layers
        trials: list[Trial] = []
        with self._drafting(best.header, skip) as draft:

            def attempt(first: int, end: int) -> Trial:
                skip.skip(first, end)
                found = acceptance(draft, samples)
                skip.require_skipped()
                step_s = best.step_s * (1 - share * (end - first))
                return Trial(first, end, found, best_gain(found.sampled, step_s, self._target_s))

            for trial in search(best.header.num_layers, attempt, wanted):
                trials.append(trial)
                self._tell.status(
                    f"without layers {trial.first} to {trial.end - 1}: "
                    f"acceptance {trial.acceptance.sampled:.3f}, foreseen {trial.gain.speedup:.2f}x"
                )
        return trials

    def _trim(self, scratch: Path, best: Stage) -> Stage:
        wanted = self._settings.num_tokens
        if wanted == 0:
            return best
        header = best.header
        choices = Vocabulary(self._target, header, self._samples)
        sizes = [size for size in SIZES if size < 0.8 * header.vocab.size] if wanted is None else [wanted]
        if not sizes:
            return best
        self._tell.status("choosing tokens")
        with self._drafting(header) as draft:
            found = acceptances(draft, choices.cases(sizes))
        share = 1 - layers_share(header)

        def foreseen(index: int) -> Gain:
            step_s = best.step_s * (1 - share * (1 - sizes[index] / header.vocab.size))
            return best_gain(found[index].sampled, step_s, self._target_s)

        index = max(range(len(sizes)), key=lambda index: foreseen(index).speedup)
        if wanted is None and foreseen(index).speedup <= best.gain.speedup:
            self._tell.note("A smaller vocabulary would not raise the speed-up.")
            return best
        kept = choices.choose(sizes[index], choices.samples)
        trimmed = self._written(scratch, "tokens", header, trim(header, kept, choices.target_ids))
        with self._drafting(trimmed) as draft:
            step_s = self._step_s(draft)
        coverage = choices.coverage(sizes[index])
        stage = self._added(f"with {len(kept):,} tokens", trimmed, step_s, found[index], coverage)
        if wanted is None and stage.gain.speedup <= best.gain.speedup:
            _reject(stage, scratch)
            return best
        _forget(best, scratch)
        self._num_tokens = len(kept)
        return stage

    # -- files

    def _written(self, scratch: Path, name: str, header: Header, edit: Edit) -> Header:
        self._tell.status("writing the draft")

        def check() -> None:
            if self._cancel.is_set:
                raise Cancelled

        return read_header(rewrite(header, scratch / f"{name}.gguf", edit, check))

    def _finish(self, scratch: Path, best: Stage) -> ForgeReport:
        recipe = None
        path = None
        if best.header is not self._source:
            recipe = Recipe(
                source=self._source.path.stem,
                source_sha256=store.sha256_of(self._source.path, cancelled=lambda: self._cancel.is_set),
                target=self._target.short_name,
                type_name=self._type,
                num_tokens=self._num_tokens,
                layers=self._layers,
                step_ms=best.step_s * 1e3,
                acceptance=best.acceptance.sampled,
                speedup=best.gain.speedup,
            )
            path = self._settings.output or self._folder / self._file_name()
            if path.exists() and not self._settings.force:
                raise OutputError(f"{path} exists already; --force replaces it.")
            final = self._written(scratch, "final", best.header, Edit(recipe.key_values))
            final.path.replace(path)
        positions = sum(len(sample.token_ids) for sample in self._samples)
        return ForgeReport(path, tuple(self._stages), best, tuple(self._target_s), positions, recipe)

    def _file_name(self) -> str:
        """The source's name with what was done to it."""
        stem = self._source.path.stem
        old = f"-{self._source.quantization.lower()}"
        parts = [stem.removesuffix(old) if self._type else stem, "forged"]
        if self._type:
            parts.append(self._type.partition(" ")[0].lower())
        if self._layers:
            parts.append(f"{self._source.num_layers - len(self._layers)}-layers")
        if self._num_tokens:
            parts.append(f"{round(self._num_tokens / 1000)}k")
        return "-".join(parts) + ".gguf"


def _sound(path: Path) -> Header:
    header = read_header(path)
    check_loadable(header)
    return header


def _forget(stage: Stage, scratch: Path) -> None:
    """Delete a file that was made on the way; the source stays."""
    if stage.header.path.parent == scratch:
        stage.header.path.unlink()


def _reject(stage: Stage, scratch: Path) -> None:
    """This one is not taken."""
    stage.taken = False
    _forget(stage, scratch)
