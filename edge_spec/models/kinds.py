"""What a GGUF file is for, and how its memory is rolled back: told from keys and tensor names.

Architectures and their memory are those of llama.cpp (src/llama-arch.cpp: llm_arch_is_recurrent,
llm_arch_is_hybrid, llm_arch_supports_rs_rollback; sliding windows from src/models/*.cpp).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, Literal

FileKind = Literal[
    "model",
    "mmproj",
    "imatrix",
    "adapter",
    "embedding",
    "encoder",
    "diffusion",
    "speech",
    "eagle3",
    "mtp",
    "dflash",
    "vocabulary only",
]
"""What a file is; only a "model" generates text by itself."""

MemoryKind = Literal["attention", "sliding window", "recurrent", "hybrid"]

Rollback = Literal["trim", "checkpoint", "state rollback"]
"""How rejected tokens leave a cache: cells are trimmed; the state is saved before and the accepted
tokens are read again; or llama.cpp keeps the states of the last batch and steps back itself."""

WHAT_IT_IS: Final[dict[FileKind, str]] = {
    "model": "a language model",
    "mmproj": "a multimodal projector (mmproj), which turns images or sound into embeddings",
    "imatrix": "an importance matrix (imatrix), which guides quantisation",
    "adapter": "a LoRA adapter, which changes another model's weights",
    "embedding": "an embedding model, which turns text into vectors",
    "encoder": "a model with an encoder, which a decoder-only loop cannot drive",
    "diffusion": "a diffusion language model, which does not write from left to right",
    "speech": "a speech model, which does not write text",
    "eagle3": "an EAGLE-3 head, which drafts from its target's hidden states",
    "mtp": "an MTP head, which drafts from its target's last hidden state",
    "dflash": "a DFlash head, which drafts blocks from its target's hidden states",
    "vocabulary only": "a vocabulary without weights",
}

HEADS: Final = frozenset[FileKind](("eagle3", "mtp", "dflash"))
"""Drafts that are no models of their own: they read the hidden states of one certain target."""

PUBLISHES_LAYER_INPUTS: Final = frozenset(
    (
        *("bailingmoe3", "deepseek4", "gemma4", "gpt-oss", "hunyuan_vl", "lfm2", "lfm2moe"),
        *("llama", "mimo2", "minimax-01", "minimax-m2", "muse-glimmer", "nanbeige", "nemotron_h"),
        *("nemotron_h_moe", "qwen3", "qwen35", "qwen35moe", "qwen3moe", "qwen3next", "qwen4exp"),
    )
)
"""Targets whose graphs hand out layer inputs, which EAGLE-3 and DFlash heads read; asking any
other for them ends the process."""

_BY_ARCHITECTURE: Final[dict[str, FileKind]] = {
    "clip": "mmproj",
    "eagle3": "eagle3",
    "dflash": "dflash",
    "gemma4-assistant": "mtp",
    **dict.fromkeys(("t5", "t5encoder"), "encoder"),
    **dict.fromkeys(("dream", "llada", "llada-moe", "rnd1"), "diffusion"),
    **dict.fromkeys(("wavtokenizer-dec", "qwen3tts", "pockettts"), "speech"),
    **dict.fromkeys(
        (
            *("bert", "modern-bert", "nomic-bert", "nomic-bert-moe", "neo-bert", "jina-bert-v2"),
            *("jina-bert-v3", "eurobert", "gemma-embedding", "llama-embed"),
        ),
        "embedding",
    ),
}
_BY_GENERAL_TYPE: Final[dict[str, FileKind]] = {
    "mmproj": "mmproj",
    "imatrix": "imatrix",
    "adapter": "adapter",
}
_RECURRENT: Final = frozenset(("mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7"))
_STEPS_BACK: Final = frozenset(
    (
        *("kimi-k3", "qwen35", "qwen35moe", "qwen4exp", "deepseek4", "glm5-next"),
        *("nemotron_h", "nemotron_h_moe", "lfm2", "lfm2moe", "bailingmoe3"),
    )
)
_HYBRID: Final = _STEPS_BACK | {
    *("jamba", "falcon-h1", "plamo2", "granitehybrid", "qwen3next", "kimi-linear", "minimax-01")
}
_ALWAYS_WINDOWED: Final = frozenset(
    (
        *("cohere2", "cohere2moe", "dots3note", "exaone-moe", "gemma2", "gemma3n", "gemma4"),
        *("gemma4-assistant", "gpt-oss", "granite_swa", "llama4", "maple", "mimo2"),
        *("muse-glimmer", "spark2_5", "step35"),
    )
)
_WINDOWED_BY_KEY: Final = frozenset(
    (
        *("afmoe", "dflash", "exaone4", "gemma3", "laguna", "mellum", "olmo2", "plamo3"),
        *("smallthinker",),
    )
)
"""Architectures that use a window when `attention.sliding_window` names one; others ignore the key."""


def file_kind(architecture: str, metadata: Mapping[str, object], tensor_names: Collection[str]) -> FileKind:
    """What a file with these keys and tensors is."""
    general = metadata.get("general.type")
    if isinstance(general, str) and general in _BY_GENERAL_TYPE:
        return _BY_GENERAL_TYPE[general]
    if "adapter.type" in metadata:
        return "adapter"
    known = _BY_ARCHITECTURE.get(architecture)
    if known is not None:
        return known
    if not tensor_names:
        return "vocabulary only"
    if _integer(metadata, f"{architecture}.pooling_type"):
        return "embedding"
    if is_mtp_head(architecture, metadata, tensor_names):
        return "mtp"
    return "model"


def has_mtp_layers(architecture: str, metadata: Mapping[str, object]) -> bool:
    """Whether layers that guess ahead (NextN, MTP) are among those of the model."""
    return _integer(metadata, f"{architecture}.nextn_predict_layers") > 0


def is_mtp_head(architecture: str, metadata: Mapping[str, object], tensor_names: Collection[str]) -> bool:
    """Whether only those layers are here, without the model that they belong to."""
    if not has_mtp_layers(architecture, metadata):
        return False
    return not any(name.startswith("blk.0.") for name in tensor_names)


def memory_kind(architecture: str, metadata: Mapping[str, object]) -> MemoryKind:
    """What a context of this model remembers of a text."""
    if architecture in _RECURRENT:
        return "recurrent"
    if architecture in _HYBRID:
        return "hybrid"
    key = f"{architecture}.attention.sliding_window"
    switched_off = architecture == "llama4" and key in metadata and not _integer(metadata, key)
    if architecture in _ALWAYS_WINDOWED and not switched_off:
        return "sliding window"
    if architecture in _WINDOWED_BY_KEY and _integer(metadata, key):
        return "sliding window"
    return "attention"


def rollback(architecture: str, memory: MemoryKind) -> Rollback:
    """How rejected tokens leave a memory of this kind."""
    if memory in ("attention", "sliding window"):
        return "trim"
    return "state rollback" if architecture in _STEPS_BACK else "checkpoint"


def _integer(metadata: Mapping[str, object], key: str) -> int:
    value = metadata.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
