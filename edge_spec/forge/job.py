"""The whole forging of one draft: sample, requantise, drop layers, trim, measuring after each step."""

from __future__ import annotations

import itertools
from pathlib import Path

from edge_spec.cancel import Cancel
from edge_spec.errors import Cancelled, OutputError, SettingError
from edge_spec.forge.bench import Bench
from edge_spec.forge.gain import Gain, layers_share
from edge_spec.forge.layers import Trial, choose, search
from edge_spec.forge.measure import acceptance, acceptances
from edge_spec.forge.recipe import Recipe
from edge_spec.forge.report import ForgeReport, ForgeSettings, Reporter, Stage
from edge_spec.forge.rewrite import Edit, rewrite
from edge_spec.forge.samples import shortest
from edge_spec.forge.scratch import Scratch
from edge_spec.forge.vocabulary import Vocabulary, check_trimmable, trim
from edge_spec.llama.skip import LayerSkip
from edge_spec.models import store
from edge_spec.models.hashes import sha256_of
from edge_spec.models.header import Header, read_header, read_loadable
from edge_spec.models.pairing import check_pair, raise_if_incompatible
from edge_spec.models.quantize import quantize

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

SIZES = (8_192, 16_384, 24_576, 32_768, 40_960, 49_152, 65_536)
"""Numbers of tokens that are considered for a trimmed vocabulary."""

_TRIALS, _TRIAL_TOKENS = 10, 32
"""Samples, and tokens of each, that a block of layers is tried on."""


class Forge:
    """One forging; `cancel` stops it between decodes and tensors, and then nothing is left behind."""

    def __init__(self, settings: ForgeSettings, cancel: Cancel, reporter: Reporter) -> None:
        self._settings = settings
        self._cancel = cancel
        self._tell = reporter
        self._target = read_loadable(settings.target)
        self._source = read_loadable(settings.draft)
        raise_if_incompatible(check_pair(self._target, self._source))
        if self._source.num_splits > 1:
            raise SettingError(
                f"{settings.draft} is in {self._source.num_splits} parts, and forging needs one file: "
                "`edge-spec models quantize` writes one."
            )
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
        self._bench = Bench(settings, self._target, self._source, cancel, reporter)
        self._layers: tuple[int, ...] = ()
        self._type: str | None = None
        self._num_tokens: int | None = None

    def clear(self) -> None:
        """Remove what was made on the way; for a sudden end of the process."""
        self._scratch.clear()

    def run(self) -> ForgeReport:
        """Forge. Raises ModelError, OutputError, SettingError and Cancelled."""
        with self._scratch as scratch, self._bench:
            best = self._bench.given()
            best = self._requantise(scratch, best)
            best = self._drop_layers(scratch, best)
            best = self._trim(scratch, best)
            return self._finish(scratch, best)

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
            stage = self._bench.measured(f"as {name}", read_header(path))
            if wanted != "auto" or stage.gain.speedup > best.gain.speedup:
                if best is not self._bench.stages[0]:
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
        stage = self._bench.measured(f"without layers {dropped[0]} to {dropped[-1]}", header)
        if wanted is None and stage.gain.speedup <= best.gain.speedup:
            _reject(stage, scratch)
            return best
        _forget(best, scratch)
        self._layers = dropped
        return stage

    def _try_layers(self, best: Stage, wanted: int | None) -> list[Trial]:
        """Trials on a part of the samples, without a file for each: the layers are skipped."""
        skip = LayerSkip()
        samples = shortest(self._bench.samples, _TRIALS, _TRIAL_TOKENS)
        share = layers_share(best.header) / best.header.num_layers
        trials: list[Trial] = []
        with self._bench.drafting(best.header, skip) as draft:

            def attempt(first: int, end: int) -> Trial:
                skip.skip(first, end)
                found = acceptance(draft, samples)
                skip.require_skipped()
                step_s = best.step_s * (1 - share * (end - first))
                return Trial(first, end, found, self._bench.gain(found, step_s))

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
        choices = Vocabulary(self._target, header, self._bench.samples)
        sizes = [size for size in SIZES if size < 0.8 * header.vocab.size] if wanted is None else [wanted]
        if not sizes:
            return best
        self._tell.status("choosing tokens")
        with self._bench.drafting(header) as draft:
            found = acceptances(draft, choices.cases(sizes))
        share = 1 - layers_share(header)

        def foreseen(index: int) -> Gain:
            step_s = best.step_s * (1 - share * (1 - sizes[index] / header.vocab.size))
            return self._bench.gain(found[index], step_s)

        index = max(range(len(sizes)), key=lambda index: foreseen(index).speedup)
        if wanted is None and foreseen(index).speedup <= best.gain.speedup:
            self._tell.note("A smaller vocabulary would not raise the speed-up.")
            return best
        kept = choices.choose(sizes[index], choices.samples)
        trimmed = self._written(scratch, "tokens", header, trim(header, kept, choices.target_ids))
        name = f"with {len(kept):,} tokens"
        stage = self._bench.measured(name, trimmed, found[index], choices.coverage(sizes[index]))
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
                source_sha256=sha256_of(self._source.path, cancelled=lambda: self._cancel.is_set),
                target=self._target.short_name,
                type_name=self._type,
                num_tokens=self._num_tokens,
                layers=self._layers,
                step_ms=best.step_s * 1e3,
                acceptance=best.acceptance.sampled,
                speedup=best.gain.speedup,
            )
            path = self._settings.output or self._free_path()
            if path.exists() and not self._settings.force:
                raise OutputError(f"{path} exists already; --force replaces it.")
            final = self._written(scratch, "final", best.header, Edit(recipe.key_values))
            final.path.replace(path)
        bench = self._bench
        positions = sum(len(sample.token_ids) for sample in bench.samples)
        return ForgeReport(path, tuple(bench.stages), best, tuple(bench.target_s), positions, recipe)

    def _free_path(self) -> Path:
        """Where to write it unless a file was named: replacing nothing, unless that was asked for.

        The name depends on what was chosen, and whoever waited for that does not want it refused.
        """
        path = self._folder / self._file_name()
        if self._settings.force:
            return path
        numbered = (path.with_stem(f"{path.stem}-{number}") for number in itertools.count(2))
        return next(one for one in itertools.chain([path], numbered) if not one.exists())

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


def _forget(stage: Stage, scratch: Path) -> None:
    """Delete a file that was made on the way; the source stays."""
    if stage.header.path.parent == scratch:
        stage.header.path.unlink()


def _reject(stage: Stage, scratch: Path) -> None:
    """This one is not taken."""
    stage.taken = False
    _forget(stage, scratch)
