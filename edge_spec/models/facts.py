"""What lists and checks need of a model file: small enough to be remembered, told by its header alone."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from edge_spec.errors import ModelFileError
from edge_spec.models import kinds
from edge_spec.models.comparison import TargetIds, list_problem
from edge_spec.models.header import Header, check_loadable
from edge_spec.models.kinds import FileKind, MemoryKind, Rollback

TARGET_IDS_KEY = "edge_spec.target_ids"
"""The key of a trimmed draft: the target's id of each of its tokens (int32, ascending)."""

FORGE_PREFIX = "edge_spec.forge."
"""Keys with the recipe of a file that was forged here begin so."""

_MAX_RECIPE = 200


@dataclass(frozen=True, slots=True)
class EndToken:
    """A token that ends a generation."""

    token: int
    text: str


@dataclass(frozen=True, slots=True)
class VocabFacts:
    """A vocabulary in brief; `fingerprint` is a hash of all its texts, `ordinary` one of which of them
    can stand in ordinary text, `title` the tokenizer in words.

    `has_texts` is False for a file that only says how many tokens there are. `target_ids` is a
    hash of a trimmed draft's list, None for a whole vocabulary; `num_target` is the least number
    of tokens that its target has.
    """

    fingerprint: str
    size: int
    has_texts: bool
    title: str
    model: str
    pre: str
    add_bos: bool
    add_eos: bool
    bos_id: int | None
    eos_id: int | None
    bos_target_id: int | None
    ends: tuple[EndToken, ...]
    target_ids: str | None
    num_target: int
    map_problem: str | None
    ordinary: str

    @property
    def key(self) -> str:
        """All that comparisons with this vocabulary depend on."""
        return " ".join((self.fingerprint, self.ordinary, self.target_ids or ""))


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """A model file in brief.

    `size` is in bytes, all parts together. `bytes_per_token` is how many bytes of weights one token
    reads: no embedding table unless it is the output's too, and of experts those that are used.
    `steady` is the share of those bytes whose type gives the same logits at every width, as far as
    that was measured. `chat_template` is a hash. `target_hidden_size` is what an EAGLE-3 or DFlash
    head was made for, else 0. `forged` is the recipe of a file made here. `problem` is what would
    end llama.cpp's process while it loads the file.
    """

    kind: FileKind
    architecture: str
    name: str
    short_name: str
    quantization: str
    parameters: int
    size: int
    num_files: int
    bytes_per_token: int
    steady: float
    context_length: int
    embedding_length: int
    memory: MemoryKind
    licence: str | None
    chat_template: str | None
    has_mtp: bool
    target_hidden_size: int
    forged: str | None
    vocab: VocabFacts
    problem: str | None

    @property
    def rollback(self) -> Rollback:
        return kinds.rollback(self.architecture, self.memory)


def facts_of(header: Header, *, sound: bool = False) -> ModelFacts:
    """The facts of a header; with `sound` it is known that llama.cpp survives loading it, which
    saves looking at every token (0.1 s for 150,000).
    """
    bytes_by_type = _bytes_read(header)
    read = sum(bytes_by_type.values())
    template = header.chat_template
    heads_of = header.kind in kinds.HEADS
    problem = None
    try:
        if not sound:
            check_loadable(header)
    except ModelFileError as error:
        problem = str(error)
    return ModelFacts(
        kind=header.kind,
        architecture=_printable(header.architecture),
        name=header.name,
        short_name=header.short_name,
        quantization=header.quantization,
        parameters=header.num_parameters,
        size=header.size,
        num_files=max(1, len(header.files)),
        bytes_per_token=read,
        steady=sum(bytes_by_type.get(name, 0) for name in _STEADY) / read if read else 0.0,
        context_length=header.context_length,
        embedding_length=header.embedding_length,
        memory=header.memory_kind,
        licence=_licence(header),
        chat_template=None if template is None else _hash(template.encode("utf-8", "replace")),
        has_mtp=kinds.has_mtp_layers(header.architecture, header.metadata),
        target_hidden_size=header.own_integer("target_hidden_size") if heads_of else 0,
        forged=_recipe(header),
        vocab=_vocab_facts(header),
        problem=problem,
    )


def target_ids_of(header: Header) -> TargetIds | None:
    """A trimmed draft's list of target ids, or None for a whole vocabulary."""
    value = header.metadata.get(TARGET_IDS_KEY)
    if isinstance(value, np.ndarray) and value.dtype == np.int32:
        return value.astype(np.int32, copy=False)
    return None


_STEADY = ("Q4_0", "Q4_1", "F32")
"""Types whose logits were the same at every width when measured (docs/log.md); norms are F32."""


def _vocab_facts(header: Header) -> VocabFacts:
    vocab, ids = header.vocab, target_ids_of(header)
    problem = None if ids is None else list_problem(ids, vocab)
    bos_target_id = vocab.bos_id
    if ids is not None and vocab.bos_id is not None:
        bos_target_id = int(ids[vocab.bos_id]) if vocab.bos_id < len(ids) else None
    return VocabFacts(
        fingerprint=vocab.fingerprint,
        size=vocab.size,
        has_texts=len(vocab.tokens) > 0,
        title=vocab.title,
        model=_printable(vocab.model),
        pre=_printable(vocab.pre),
        add_bos=vocab.add_bos,
        add_eos=vocab.add_eos,
        bos_id=vocab.bos_id,
        eos_id=vocab.eos_id,
        bos_target_id=bos_target_id,
        ends=tuple(EndToken(token, vocab.text(token)) for token in vocab.end_ids),
        target_ids=None if ids is None else _hash(ids.tobytes()),
        num_target=0 if ids is None or not len(ids) else int(ids[-1]) + 1,
        map_problem=problem,
        ordinary=_hash(vocab.ordinary().tobytes()),
    )


def _bytes_read(header: Header) -> dict[str, int]:
    """Bytes of weights that one token reads, by type."""
    names = {tensor.name for tensor in header.tensors}
    unused = {"per_layer_token_embd.weight"}
    if "output.weight" in names:
        unused.add("token_embd.weight")
    experts, used = header.own_integer("expert_count"), header.own_integer("expert_used_count")
    first_ahead = header.num_layers - header.own_integer("nextn_predict_layers")
    sums: dict[str, int] = {}
    for tensor in header.tensors:
        layer = tensor.layer
        if tensor.name in unused or (layer is not None and layer >= first_ahead > 0):
            continue
        num_bytes = tensor.num_bytes
        if "_exps." in tensor.name and 0 < used < experts:
            num_bytes = num_bytes * used // experts
        sums[tensor.type.name] = sums.get(tensor.type.name, 0) + num_bytes
    return sums


def _licence(header: Header) -> str | None:
    licence = header.text("general.license")
    if licence == "other" or not licence:
        licence = header.text("general.license.name") or licence
    return _printable(licence) if licence else None


def _recipe(header: Header) -> str | None:
    """The keys of a forged file as one line: `from qwen2.5-0.5b, keep 32000, type Q4_0`."""
    steps = [
        f"{key.removeprefix(FORGE_PREFIX).replace('_', ' ')} {value:,}"
        if isinstance(value, int) and not isinstance(value, bool)
        else f"{key.removeprefix(FORGE_PREFIX).replace('_', ' ')} {value}"
        for key, value in header.metadata.items()
        if key.startswith(FORGE_PREFIX) and isinstance(value, str | int | float)
    ]
    return _printable(", ".join(steps))[:_MAX_RECIPE] if steps else None


def _printable(text: str) -> str:
    return "".join(sign for sign in text[:_MAX_RECIPE] if sign.isprintable())


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]
