"""What a forging measures with: the target, what it writes, and the draft as given."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType

from edge_spec.api import LoadedModel, token_map
from edge_spec.cancel import Cancel
from edge_spec.config import ModelSettings
from edge_spec.errors import Cancelled, SettingError
from edge_spec.forge.gain import Gain, best_gain
from edge_spec.forge.measure import Acceptance, Drafting, acceptance, row_times, step_times
from edge_spec.forge.report import ForgeSettings, Reporter, Stage
from edge_spec.forge.samples import Sample, generate_samples
from edge_spec.llama import abi
from edge_spec.llama.skip import LayerSkip
from edge_spec.models.header import Header
from edge_spec.models.memory import Request, check_memory, make_machine
from edge_spec.models.pairing import check_pair

_MOST_ROWS = 9
"""The target is timed with up to so many rows, so drafts of one less are considered."""

_STEPS, _ROUNDS = 40, 5
_SLOTS, _CONTEXT = 8, 1024


class Bench:
    """Entered, loads the target, times it, lets it write samples, and loads the draft as given.

    `stages` has every draft that was measured, in order. Raises ModelError, SettingError and
    Cancelled.
    """

    def __init__(
        self, settings: ForgeSettings, target: Header, source: Header, cancel: Cancel, tell: Reporter
    ) -> None:
        self._settings = settings
        self._target = target
        self._source = source
        self._cancel = cancel
        self._tell = tell
        self._loaded = contextlib.ExitStack()
        self._model: LoadedModel
        self._given: Drafting
        self.samples: Sequence[Sample] = ()
        self.target_s: Sequence[float] = ()
        self.stages: list[Stage] = []

    def __enter__(self) -> Bench:
        try:
            self._model = self._load_target()
            self._tell.status("timing the target")
            self.target_s = row_times(self._model.cache, _MOST_ROWS, _ROUNDS)
            self.samples = generate_samples(
                self._model,
                self._settings.prompts,
                self._settings.sample_tokens,
                lambda done, total: self._tell.status(f"the target writes samples: {done} of {total}"),
            )
            if not self.samples:
                raise SettingError("The target answered every prompt with nothing: give other prompts.")
            self._given = self._loaded.enter_context(self.drafting(self._source))
        except BaseException:
            self._loaded.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loaded.close()

    def _load_target(self) -> LoadedModel:
        s = self._settings
        settings = ModelSettings(
            s.target,
            context_size=_CONTEXT,
            num_slots=_SLOTS,
            threads=s.threads,
            threads_batch=s.threads_batch,
            gpu_layers=s.gpu_layers,
            device=s.device,
        )
        draft = self._draft_settings(s.draft, _CONTEXT)
        requests = [Request(settings, self._target), Request(draft, self._source)]
        check_memory(requests, make_machine(abi.devices(), abi.cpu_features()))
        self._tell.status("loading the target")
        model = LoadedModel(settings, self._target, self._cancel, self._while_loading)
        self._loaded.callback(model.close)
        return model

    @contextlib.contextmanager
    def drafting(self, header: Header, skip: LayerSkip | None = None) -> Iterator[Drafting]:
        """A draft, loaded while the context is open."""
        settings = self._draft_settings(header.path, 2 * _CONTEXT)
        model = LoadedModel(settings, header, self._cancel, self._while_loading, skip)
        try:
            mapped = token_map(check_pair(self._target, header), self._model.model, header, model.model)
            yield Drafting(model.cache, mapped, self._model.model.num_vocab)
        finally:
            model.close()

    def _draft_settings(self, path: Path, context_size: int) -> ModelSettings:
        s = self._settings
        return ModelSettings(
            path,
            context_size=context_size,
            threads=s.threads,
            threads_batch=s.threads_batch,
            gpu_layers=s.draft_gpu_layers,
            device=s.draft_device,
        )

    def _while_loading(self, _fraction: float) -> None:
        if self._cancel.is_set:
            raise Cancelled

    def given(self) -> Stage:
        """Measure the draft as given; comes before all others."""
        self._tell.status("measuring the draft as given")
        step_s = step_times([self._given.cache], _STEPS)[0]
        return self._add("as given", self._source, step_s, acceptance(self._given, self.samples), None)

    def measured(
        self, name: str, header: Header, known: Acceptance | None = None, coverage: float | None = None
    ) -> Stage:
        """Time a file and read the samples with it, unless what comes of that is `known`."""
        self._tell.status(f"measuring the draft {name}")
        with self.drafting(header) as draft:
            given, own = step_times([self._given.cache, draft.cache], _STEPS)
            # At the speed that the machine had when the draft as given was timed.
            step_s = own / given * self.stages[0].step_s
            found = known or acceptance(draft, self.samples)
            return self._add(name, header, step_s, found, coverage)

    def _add(
        self, name: str, header: Header, step_s: float, found: Acceptance, coverage: float | None
    ) -> Stage:
        stage = Stage(name, header, step_s, found, self.gain(found, step_s), coverage)
        self.stages.append(stage)
        self._tell.stage(stage)
        return stage

    def gain(self, found: Acceptance, step_s: float) -> Gain:
        """What a draft with this acceptance and step time promises here."""
        return best_gain(found.sampled, step_s, self.target_s)
