"""The simple way in: load a pair, generate from it, in this process.

with edge_spec.load_pair("target.gguf", "draft.gguf") as pair:
    print(pair.complete("Write a haiku about compilers."))
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from edge_spec.cancel import Cancel
from edge_spec.config import Decoding, ModelSettings, Sampling
from edge_spec.errors import PromptTooLongError, SettingError, UsageError
from edge_spec.events import Event, Finished, Notice, Verified
from edge_spec.models import store
from edge_spec.models.header import Header, check_loadable, read_header
from edge_spec.models.memory import check_memory
from edge_spec.models.pairing import check_pair, raise_if_incompatible
from edge_spec.stats import Stats
from edge_spec.text import StopStrings, TextStream
from edge_spec.types import FinishReason, Slot, Timers

if TYPE_CHECKING:
    from edge_spec.llama.cache import Cache
    from edge_spec.llama.model import Model

Message = Mapping[str, str]
"""{"role": "system" | "user" | "assistant", "content": text}"""

Prompt = str | Sequence[Message] | Sequence[int]
"""A user's text, a conversation, or token ids."""

LoadProgress = Callable[[Literal["target", "draft"], float], None]
"""Called with the model that is loading and the fraction done, 0 to 1."""

MAX_DRAFT = 64
"""The most tokens drafted a round with one slot; several slots share them."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One finished text: without stop string and special tokens, its ids, why it ended."""

    text: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason
    stats: Stats


class LoadedModel:
    """One model of a pair: its file, its header, and its cache in llama.cpp."""

    def __init__(
        self, settings: ModelSettings, header: Header, cancel: Cancel, on_progress: Callable[[float], None]
    ):
        # Imported here so that `import edge_spec`, check and --help never load llama.cpp.
        from edge_spec.llama.cache import Cache
        from edge_spec.llama.context import Context
        from edge_spec.llama.model import Model

        self.path = settings.path
        self.header = header
        self.settings = settings
        self.model: Model = Model(settings, on_progress)
        try:
            num_outputs = settings.num_slots * (1 + max(1, MAX_DRAFT // settings.num_slots))
            context = Context(self.model, settings, min(num_outputs, settings.batch_size), cancel)
            try:
                self.cache: Cache = Cache(context)
            except BaseException:
                context.close()
                raise
        except BaseException:
            self.model.close()
            raise

    @property
    def quantization(self) -> str:
        """The file's quantisation by llama.cpp's name, such as Q4_K_M."""
        return self.header.quantization

    @cached_property
    def sha256(self) -> str:
        """The file's hash; remembered by path, size and time, else seconds for a gigabyte."""
        return store.sha256_of(self.path)

    def close(self) -> None:
        self.cache.close()
        self.model.close()


class Pair:
    """A target and perhaps a draft model, loaded; use it as a context manager.

    One generation runs at a time; `cancel` may be called from any thread or signal handler.
    """

    def __init__(
        self, target: LoadedModel, draft: LoadedModel | None, cancel: Cancel, notices: Sequence[Notice]
    ):
        self.target = target
        self.draft = draft
        self.notices = list(notices)
        self._cancel = cancel
        self._timers = Timers()
        self._closed = False

    # -- generating

    def generate(
        self,
        prompt: Prompt,
        *,
        system: str | None = None,
        sampling: Sampling | None = None,
        decoding: Decoding | None = None,
        raw: bool = False,
        reuse_cache: bool = True,
    ) -> Generator[Event]:
        """Generate one text, as events.

        `raw` gives the prompt to the model without a chat template, special-token text
        parsed. `reuse_cache` False forgets what both models have read before. Raises
        PromptTooLongError, SettingError and UsageError before anything is decoded.
        """
        ids = self.encode(prompt, system=system, raw=raw)
        return self.generate_many([ids], sampling=sampling, decoding=decoding, reuse_cache=reuse_cache)

    def generate_many(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        sampling: Sampling | None = None,
        decoding: Decoding | None = None,
        reuse_cache: bool = True,
    ) -> Generator[Event]:
        """Generate several texts at once from token ids, one decode for all of them a round.

        Needs a pair loaded with at least that many slots. Text i is drawn with slot key i.
        """
        sampling, decoding = sampling or Sampling(), decoding or Decoding()
        if not prompts:
            raise UsageError("There is no prompt to generate from; give at least one.")
        if len(prompts) > self.target.settings.num_slots:
            raise SettingError(
                f"{len(prompts)} texts at once need a pair loaded with num_slots={len(prompts)} "
                f"(it has {self.target.settings.num_slots})."
            )
        slots = [self._slot(seq, ids, sampling, decoding) for seq, ids in enumerate(prompts)]
        return self._run(slots, decoding, reuse_cache)

    def answer(self, prompt: Prompt, **options: Any) -> Answer:
        """Generate one text to its end; takes what `generate` takes."""
        decoding = options.get("decoding") or Decoding()
        stream = TextStream(self.piece, decoding.stop)
        text: list[str] = []
        ids: list[int] = []
        for event in self.generate(prompt, **options):
            match event:
                case Verified(verdict=verdict):
                    ids.extend(verdict.tokens)
                    text.extend(stream.push(token) for token in verdict.tokens)
                case Finished(reason=reason, stats=stats):
                    text.append(stream.flush())
                    return Answer("".join(text), tuple(ids), reason, stats)
        raise AssertionError("a generation ended without a Finished event")

    def complete(self, prompt: Prompt, **options: Any) -> str:
        """The text that answers `prompt`; takes what `generate` takes."""
        return self.answer(prompt, **options).text

    def chat(self, messages: Sequence[Message], **options: Any) -> str:
        """The assistant's next message in a conversation; takes what `generate` takes.

        Both models keep what they have read, so the next turn reads only what is new.
        """
        return self.answer(messages, **options).text

    def cancel(self) -> None:
        """Stop the running generation; it ends with reason "cancelled", its text kept."""
        self._cancel.set()

    # -- text

    def encode(self, prompt: Prompt, *, system: str | None = None, raw: bool = False) -> list[int]:
        """Token ids of a prompt. Raises UsageError when it is empty."""
        model = self.target.model
        if isinstance(prompt, str):
            if not prompt:
                raise UsageError("The prompt is empty; write something for the model to answer.")
            if raw:
                return model.tokenize(prompt, add_special=True, parse_special=True)
            prompt = [{"role": "user", "content": prompt}]
        if not prompt:
            raise UsageError("The prompt is empty; write something for the model to answer.")
        if isinstance(prompt[0], int):
            return [self._checked_id(token) for token in prompt]
        messages: list[Message] = [message for message in prompt if isinstance(message, Mapping)]
        if system is not None:
            messages.insert(0, {"role": "system", "content": system})
        return model.encode_chat(messages)

    def render(self, messages: Sequence[Message]) -> str:
        """The prompt text of a conversation by the target's chat template."""
        return self.target.model.render(messages)

    def piece(self, token: int) -> bytes:
        """The bytes that `token` stands for; empty for control tokens."""
        return self.target.model.piece(token)

    # -- life

    def close(self) -> None:
        """Free both models; safe to call twice."""
        if not self._closed:
            self._closed = True
            if self.draft is not None:
                self.draft.close()
            self.target.close()

    def __enter__(self) -> Pair:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- inside

    def _run(self, slots: Sequence[Slot], decoding: Decoding, reuse_cache: bool) -> Generator[Event]:
        from edge_spec.drafters import ModelDrafter, NoDrafter
        from edge_spec.engine import Engine
        from edge_spec.planner import FixedPlanner
        from edge_spec.target import ModelTarget

        if self._closed:
            raise UsageError("This pair was closed; load it again.")
        if not reuse_cache:
            self.target.cache.clear()
            if self.draft is not None:
                self.draft.cache.clear()
        self._cancel.clear()
        timers = Timers()
        target = ModelTarget(self.target.cache, timers)
        if self.draft is None:
            engine = Engine(
                target, NoDrafter(), FixedPlanner(0, reason_off="no draft model"), timers, self._cancel
            )
        else:
            drafter = (
                ModelDrafter(self.draft.cache, self.target.model.num_vocab, timers)
                if decoding.draft_max
                else NoDrafter()
            )
            planner = FixedPlanner(decoding.draft_max, decoding.draft_min, "draft length 0 was asked for")
            engine = Engine(target, drafter, planner, timers, self._cancel)
        yield from itertools.chain(self.notices, engine.generate(slots))

    def _slot(self, seq: int, ids: Sequence[int], sampling: Sampling, decoding: Decoding) -> Slot:
        from edge_spec.sampling import SamplerChain
        from edge_spec.verify import make_coupling

        size = self.target.settings.context_size
        if len(ids) >= size:
            raise PromptTooLongError(
                f"The prompt has {len(ids)} tokens, but the context holds {size} with room for an answer; "
                f"shorten it or raise --ctx-size."
            )
        for token, _bias in sampling.logit_bias:
            self._checked_id(token)
        draft_sampling = sampling
        if decoding.draft_temperature is not None:
            draft_sampling = replace(sampling, temperature=decoding.draft_temperature)
        stop = StopStrings(self.piece, decoding.stop)
        is_eog = self.target.model.is_eog

        def cut(tokens: Sequence[int]) -> tuple[int, FinishReason] | None:
            for count, token in enumerate(tokens, 1):
                if is_eog(token):
                    stopped = stop.push(tokens[:count])
                    return (stopped, "stop") if stopped is not None else (count, "eog")
            stopped = stop.push(tokens)
            return None if stopped is None else (stopped, "stop")

        return Slot(
            seq=seq,
            tokens=list(ids),
            num_prompt=len(ids),
            max_tokens=decoding.max_tokens,
            coupling=make_coupling(decoding.coupling_name, decoding.seed, seq),
            target_sampler=SamplerChain(sampling),
            draft_sampler=SamplerChain(draft_sampling),
            cut=cut,
        )

    def _checked_id(self, token: object) -> int:
        limit = self.target.model.num_vocab
        if not isinstance(token, int) or not 0 <= token < limit:
            raise UsageError(f"Token id {token} is outside the vocabulary (0 to {limit - 1}).")
        return token


def load_pair(
    target: str | Path,
    draft: str | Path | None = None,
    *,
    context_size: int = 4096,
    threads: int | None = None,
    threads_batch: int | None = None,
    gpu_layers: int = -1,
    draft_gpu_layers: int = -1,
    device: str | None = None,
    draft_device: str | None = None,
    kv_type_k: str = "f16",
    kv_type_v: str = "f16",
    flash_attention: str = "auto",
    batch_size: int = 512,
    num_slots: int = 1,
    on_progress: LoadProgress | None = None,
) -> Pair:
    """Load a target and perhaps a draft model, each a path, a catalogue name or a store file.

    Everything that can be known from the headers is checked before llama.cpp sees a file:
    that both are sound, that they pair, and that they fit in memory. Raises ModelError and
    SettingError.
    """
    report = on_progress or (lambda _model, _fraction: None)
    common: dict[str, Any] = {
        "context_size": context_size,
        "threads": threads,
        "threads_batch": threads_batch,
        "kv_type_k": kv_type_k,
        "kv_type_v": kv_type_v,
        "flash_attention": flash_attention,
        "batch_size": batch_size,
        "num_slots": num_slots,
    }
    settings = ModelSettings(store.resolve(target), gpu_layers=gpu_layers, device=device, **common)
    draft_settings = None
    if draft is not None:
        draft_settings = ModelSettings(
            store.resolve(draft), gpu_layers=draft_gpu_layers, device=draft_device, **common
        )
    header = _sound_header(settings.path)
    draft_header = None if draft_settings is None else _sound_header(draft_settings.path)
    if draft_header is not None:
        raise_if_incompatible(check_pair(header, draft_header))
    check_memory(settings, header, draft_settings, draft_header, gpu=_has_gpu())
    notices = []
    if 0 < header.context_length < context_size:
        notices.append(
            Notice(
                "warning",
                f"The target was trained on {header.context_length} tokens; beyond them its text gets worse.",
            )
        )
    if _has_amx():
        notices.append(
            Notice(
                "warning",
                "This llama.cpp was built with AMX kernels, which may crash: its fast CPU kernels are off; "
                "the README says how to rebuild it without AMX.",
            )
        )
    cancel = Cancel()
    loaded = LoadedModel(settings, header, cancel, lambda fraction: report("target", fraction))
    if draft_settings is None or draft_header is None:
        return Pair(loaded, None, cancel, notices)
    try:
        small = LoadedModel(draft_settings, draft_header, cancel, lambda fraction: report("draft", fraction))
    except BaseException:
        loaded.close()
        raise
    return Pair(loaded, small, cancel, notices)


def _sound_header(path: Path) -> Header:
    header = read_header(path)
    check_loadable(header)
    return header


def _has_amx() -> bool:
    from edge_spec.llama import abi

    return abi.has_amx()


def _has_gpu() -> bool:
    """Whether llama.cpp sees a GPU with memory of its own."""
    from edge_spec.llama import abi

    return any(device.kind == "gpu" for device in abi.devices())
