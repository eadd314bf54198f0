"""A model's vocabulary as its header gives it, with llama.cpp's defaults filled in.

The rules follow llama_vocab::impl::load in llama.cpp's src/llama-vocab.cpp.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edge_spec.models.reader import StringArray, Value, plain


@dataclass(frozen=True, slots=True)
class _Family:
    """What llama.cpp assumes for a kind of tokenizer unless the file says otherwise."""

    title: str
    bos_id: int | None
    eos_id: int | None
    add_bos: bool = False
    add_eos: bool = False


_BPE = _Family("byte-level BPE", 11, 11)
_FAMILIES = {
    "llama": _Family("SentencePiece", 1, 2, add_bos=True),
    "bert": _Family("WordPiece", 101, None, add_bos=True),
    "gpt2": _BPE,
    "hybriddna": _BPE,
    "whitespace": _BPE,
    "gemma4": _Family("byte-level BPE", None, None),
    "t5": _Family("Unigram", None, 1, add_eos=True),
    "rwkv": _Family("RWKV", None, None),
    "plamo2": _Family("PLaMo-2", 1, 2),
}
_NO_TOKENIZER = _Family("no tokenizer", None, None)
_PRE_WITH_BOS = frozenset(
    {
        *("llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0"),
        *("lfm2", "jina-v5-nano", "tekken", "chameleon"),
    }
)
_PRE_WITHOUT_BOS_ID = frozenset(("chatglm-bpe", "glm4", "glm5"))

_CONTROL, _USER_DEFINED = 3, 4
_NO_TEXT_TYPES = (2, _CONTROL, 5)
"""Token types (LLAMA_TOKEN_TYPE_*) that ordinary text never holds: unknown, control, unused."""

_END_TEXTS = frozenset(
    (
        *(b"<|eot_id|>", b"<|im_end|>", b"<|end|>", b"<|return|>", b"<|call|>", b"<|flush|>", b"<|calls|>"),
        *(b"<end_of_turn>", b"<|endoftext|>", b"</s>", b"<|eom_id|>", b"<EOT>", b"_<EOT>", b"[EOT]"),
        *(b"[EOS]", b"<|end_of_text|>", b"<end_of_utterance>", b"<eos>", b"<turn|>", b"<|tool_response>"),
        *(
            "<\uff5cend\u2581of\u2581sentence\uff5c>".encode(),
            b"[e~[",
            b"<|fim_pad|>",
            b"<fim-pad>",
            b"<fim_pad>",
        ),
        *(b"<PAD>", b"[PAD]", b"<|fim_repo|>", b"<|repo_name|>", b"<fim-repo>", b"<REPO>", b"<reponame>"),
        b"<|file_sep|>",
    )
)
"""Texts that llama.cpp takes for the end of generation."""


@dataclass(frozen=True, slots=True, eq=False)
class Vocab:
    """The tokens of a model and what it adds around a text.

    `model` and `pre` are the header's `tokenizer.ggml.model` and `.pre` ("" when absent),
    `title` is the kind of tokenizer in words. `tokens` are raw bytes, `token_types` int32 of
    the same length or None. `bos_id` and `eos_id` are None when there is no such token.
    `named_end_ids` are those that the header calls an end: of text, of a turn, of a message.
    """

    model: str
    pre: str
    title: str
    tokens: StringArray
    token_types: NDArray[np.int32] | None
    num_merges: int
    size: int
    bos_id: int | None
    eos_id: int | None
    add_bos: bool
    add_eos: bool
    named_end_ids: tuple[int, ...] = ()

    @property
    def fingerprint(self) -> str:
        """A hash of all token texts in order; 64 hex digits, of which eight tell vocabularies apart."""
        digest = hashlib.sha256(f"{self.model} {self.size} ".encode("utf-8", "replace"))
        digest.update(self.tokens.blob)  # each text is preceded by its length there
        return digest.hexdigest()

    @property
    def end_ids(self) -> tuple[int, ...]:
        """Tokens that end a generation, ascending: those named, and special ones with such a text."""
        found = set(self.named_end_ids)
        if self.token_types is not None:
            special = np.isin(self.token_types[: len(self.tokens)], (_CONTROL, _USER_DEFINED))
            found.update(i for i in np.flatnonzero(special).tolist() if self.tokens[i] in _END_TEXTS)
        return tuple(sorted(found))

    def ordinary(self) -> NDArray[np.bool_]:
        """Whether each token can be part of ordinary text; shape (len(tokens),)."""
        result = np.ones(len(self.tokens), np.bool_)
        if self.token_types is not None:
            types = self.token_types[: len(self.tokens)]
            result[: len(types)] = ~np.isin(types, _NO_TEXT_TYPES)
        return result

    def texts(self) -> list[bytes]:
        """Every token as `raw` gives it; quick for all, slow for one."""
        return [
            text if text and b"\0" not in text else self.raw(token)
            for token, text in enumerate(self.tokens.all())
        ]

    def raw(self, token: int) -> bytes:
        """A token's bytes as llama.cpp holds them: up to a NUL, and never empty."""
        text = self.tokens[token].split(b"\0", 1)[0]
        return text or b"[EMPTY_%d]" % token

    def text(self, token: int) -> str:
        """A token as text; what is not UTF-8 becomes U+FFFD."""
        return plain(self.raw(token))

    def first_duplicate(self) -> int | None:
        """The first id whose text an earlier id has already; llama.cpp aborts on such a file."""
        distinct = set(self.tokens.all())
        if len(distinct) == len(self.tokens) and b"" not in distinct:
            return None
        seen: set[bytes] = set()
        for token in range(len(self.tokens)):
            raw = self.raw(token)
            if raw in seen:
                return token
            seen.add(raw)
        return None


def _int32(value: Value | None) -> NDArray[np.int32] | None:
    """An int32 array as it is; anything else is no token types, as in llama.cpp."""
    if isinstance(value, np.ndarray) and value.dtype == np.int32:
        return value.astype(np.int32, copy=False)
    return None


def read_vocab(metadata: Mapping[str, Value], architecture: str) -> Vocab:
    """The vocabulary in a header's key-values; missing or ill-typed ones count as absent."""

    def text(key: str) -> str:
        value = metadata.get(f"tokenizer.ggml.{key}")
        return value if isinstance(value, str) else ""

    def flag(key: str, default: bool) -> bool:
        value = metadata.get(f"tokenizer.ggml.{key}")
        return value if isinstance(value, bool) else default

    tokens = metadata.get("tokenizer.ggml.tokens")
    if not isinstance(tokens, StringArray):
        tokens = StringArray(b"", np.empty(0, np.int64))
    kinds = metadata.get("tokenizer.ggml.token_type")
    merges = metadata.get("tokenizer.ggml.merges")
    declared = metadata.get(f"{architecture}.vocab_size")
    size = len(tokens)
    if not size and isinstance(declared, int) and not isinstance(declared, bool):
        size = max(0, declared)

    model, pre = text("model"), text("pre")
    family = _FAMILIES.get(model, _NO_TOKENIZER)
    bpe = family.title == _BPE.title
    default_bos = None if bpe and pre in _PRE_WITHOUT_BOS_ID else family.bos_id
    default_add_bos = family.add_bos or (bpe and pre in _PRE_WITH_BOS)

    def token_id(key: str, default: int | None) -> int | None:
        value = metadata.get(f"tokenizer.ggml.{key}")
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < size:
            return value
        return default if default is not None and default < size else None

    add_bos = flag("add_bos_token", default_add_bos)
    if model == "gemma4" or (bpe and pre in ("gemma4", "granite-embed-multi-311m")):
        add_bos = True  # llama.cpp overrides the file here (pull request 21500)
    eos_id = token_id("eos_token_id", family.eos_id)
    ends = (eos_id, token_id("eot_token_id", None), token_id("eom_token_id", None))
    return Vocab(
        model=model,
        pre=pre,
        title=family.title,
        tokens=tokens,
        token_types=_int32(kinds),
        num_merges=len(merges) if isinstance(merges, StringArray) else 0,
        size=size,
        bos_id=token_id("bos_token_id", default_bos),
        eos_id=eos_id,
        add_bos=add_bos,
        add_eos=flag("add_eos_token", family.add_eos),
        named_end_ids=tuple(sorted({token for token in ends if token is not None and token < len(tokens)})),
    )
