"""Which tokens a draft keeps, and the vocabulary that is left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import gguf
import numpy as np
from numpy.typing import NDArray

from edge_spec.errors import SettingError
from edge_spec.forge.rewrite import Edit, KeyValue, read_key_values
from edge_spec.forge.samples import Sample
from edge_spec.models.facts import TARGET_IDS_KEY, target_ids_of
from edge_spec.models.header import Header
from edge_spec.models.reader import StringArray

_NORMAL, _UNUSED, _BYTE = 1, 5, 6
_PREFIX = "tokenizer.ggml."
_SUPPORTED = ("gpt2", "llama")
"""Tokenizers whose vocabulary is a list of tokens with merges (byte-level BPE) or scores
(SentencePiece), both of which stay sound when tokens are taken out."""

_FLATTENED = 1000
"""Added to an id before its inverse is taken: the first thousand ids differ little in how common they are."""


def check_trimmable(header: Header) -> None:
    """Raise SettingError when this kind of vocabulary cannot be trimmed."""
    if header.vocab.model not in _SUPPORTED:
        raise SettingError(
            f"{header.name} has a {header.vocab.title} tokenizer, whose vocabulary is not trimmed: "
            "use --no-trim."
        )


def special_ids(header: Header) -> set[int]:
    """Tokens that stay whatever the text: control tokens, single bytes, and those named by the header."""
    vocab = header.vocab
    kept = set(_named_ids(header).values())
    kinds = vocab.token_types
    if kinds is not None:
        kept |= set(np.flatnonzero((kinds != _NORMAL) & (kinds != _UNUSED)).tolist())
    if vocab.model == "gpt2":
        # Every byte stands for one letter there, so these are the single bytes (and few others).
        kept |= {token for token, text in enumerate(vocab.tokens) if len(text.decode("utf-8", "ignore")) == 1}
    return kept


def _named_ids(header: Header) -> dict[str, int]:
    """The ids that key-values name, llama.cpp's defaults filled in."""
    named = {
        key: value
        for key, value in header.metadata.items()
        if key.startswith(_PREFIX)
        and key.endswith("_token_id")
        and isinstance(value, int)
        and 0 <= value < header.vocab.size
    }
    # A default is an id too, and would be another token's in a trimmed vocabulary.
    for key, token in (("bos_token_id", header.vocab.bos_id), ("eos_token_id", header.vocab.eos_id)):
        if token is not None:
            named.setdefault(_PREFIX + key, token)
    return named


def _parts(header: Header) -> dict[int, tuple[int, int]]:
    """The two tokens that each token is first merged from."""
    ids = {text: token for token, text in enumerate(header.vocab.tokens)}
    parts: dict[int, tuple[int, int]] = {}
    for left, right in _merges(header):
        whole, first, second = ids.get(left + right), ids.get(left), ids.get(right)
        if whole is not None and first is not None and second is not None:
            parts.setdefault(whole, (first, second))
    return parts


def _merges(header: Header) -> Iterable[tuple[bytes, bytes]]:
    merges = header.metadata.get(f"{_PREFIX}merges")
    if isinstance(merges, StringArray):
        for merge in merges:
            left, _, right = merge.partition(b" ")
            yield left, right


def _with_parts(token: int, parts: Mapping[int, tuple[int, int]], permitted: set[int]) -> set[int]:
    found: set[int] = set()
    todo = [token]
    while todo:
        one = todo.pop()
        if one not in found and one in permitted:
            found.add(one)
            todo.extend(parts.get(one, ()))
    return found


def trim(header: Header, kept: NDArray[np.int64], target_ids: NDArray[np.int64]) -> Edit:
    """The edit that leaves only the tokens `kept`; `target_ids` are the target's ids of all tokens.

    Merges stay when both parts and the result do.
    """
    values = read_key_values(header)
    old = {key: value.value for key, value in values.items()}
    new_ids = {int(token): new for new, token in enumerate(kept)}
    tokens = [header.vocab.tokens[int(token)] for token in kept]
    changed: dict[str, KeyValue | None] = {"tokenizer.huggingface.json": None}

    def replace(key: str, value: object) -> None:
        before = values[key]
        changed[key] = KeyValue(value, before.type, before.item_type)  # type: ignore[arg-type]

    replace(f"{_PREFIX}tokens", tokens)
    for name in ("token_type", "scores"):
        array = old.get(_PREFIX + name)
        if isinstance(array, np.ndarray) and len(array) == header.vocab.size:
            replace(_PREFIX + name, array[kept])
    if f"{_PREFIX}merges" in values:
        texts = set(tokens)
        left = [a + b" " + b for a, b in _merges(header) if a in texts and b in texts and a + b in texts]
        replace(f"{_PREFIX}merges", left)
    for key, token in _named_ids(header).items():
        new = new_ids.get(token)
        changed[key] = None if new is None else KeyValue(new, gguf.GGUFValueType.UINT32)
    suppressed = old.get(f"{_PREFIX}suppress_tokens")
    if isinstance(suppressed, np.ndarray):
        found = [new_ids[int(token)] for token in suppressed if int(token) in new_ids]
        replace(f"{_PREFIX}suppress_tokens", found)
    if f"{header.architecture}.vocab_size" in values:
        replace(f"{header.architecture}.vocab_size", len(kept))
    changed[TARGET_IDS_KEY] = KeyValue(
        target_ids[kept].astype(np.int32), gguf.GGUFValueType.ARRAY, gguf.GGUFValueType.INT32
    )
    return Edit(changed, rows=kept)


class Vocabulary:
    """The choice of tokens for a draft by samples of its target's text.

    First come those that must stay, then by falling score: how much the target writes a token in
    the samples or might have, and as much again by the token's id. A vocabulary learnt by merging
    has its commonest tokens first, and a few thousand tokens of text say little of the rarer ones.
    With byte-level BPE a token comes with the parts that it is merged from, so that the trimmed
    tokenizer can make it. `target_ids` are the target's ids of all the draft's tokens.
    """

    def __init__(self, target: Header, draft: Header, samples: Sequence[Sample]) -> None:
        self.samples = samples
        trimmed = target_ids_of(draft)
        size = draft.vocab.size
        self.target_ids: NDArray[np.int64] = np.arange(size) if trimmed is None else trimmed.astype(np.int64)
        theirs, own = target.vocab.texts(), draft.vocab.texts()
        # A token that spells something else in the target could never be drafted.
        self._allowed = np.array(
            [i for i, t in enumerate(self.target_ids.tolist()) if t < len(theirs) and theirs[t] == own[i]],
            np.int64,
        )
        self._permitted = set(self._allowed.tolist())
        self._special = special_ids(draft) & self._permitted
        self._parts = _parts(draft)
        self._own_ids = dict(zip(self.target_ids.tolist(), range(size), strict=True))
        self._folds = [list(samples[0::2]), list(samples[1::2])]

    def choose(self, num_tokens: int, samples: Sequence[Sample]) -> NDArray[np.int64]:
        """The draft tokens to keep, ascending, `num_tokens` of them, by what `samples` hold.

        More only where more must stay, fewer only where fewer may.
        """
        scores = self._scores(samples)
        kept = set(self._special)
        for token in self._allowed[np.argsort(-scores[self._allowed], kind="stable")].tolist():
            if len(kept) >= num_tokens:
                break
            missing = _with_parts(token, self._parts, self._permitted) - kept
            if len(kept) + len(missing) <= num_tokens:
                kept |= missing
        return np.array(sorted(kept), np.int64)

    def cases(self, sizes: Sequence[int]) -> list[tuple[Sample, list[NDArray[np.int64] | None]]]:
        """Each sample with the target ids that each size keeps when the sample's half is not looked at."""
        cases: list[tuple[Sample, list[NDArray[np.int64] | None]]] = []
        for fold, other in zip(self._folds, reversed(self._folds), strict=True):
            sets: list[NDArray[np.int64] | None] = [
                self.target_ids[self.choose(size, other)] for size in sizes
            ]
            cases += [(sample, sets) for sample in fold]
        return cases

    def coverage(self, num_tokens: int) -> float:
        """The share of the samples' tokens that are kept when their half is not looked at."""
        found = [
            np.isin(np.array(sample.token_ids), kept)
            for sample, sets in self.cases([num_tokens])
            for kept in sets
            if kept is not None
        ]
        return float(np.concatenate(found).mean())

    def _scores(self, samples: Sequence[Sample]) -> NDArray[np.float64]:
        """How much the target writes each draft token or might have, half as much for reading it.

        Shape (the draft's tokens,). To that, as much as all samples together, shared out by id.
        """
        scores = np.zeros(len(self.target_ids))
        for sample in samples:
            for tokens, amount in ((sample.prompt_ids, 0.5), (sample.token_ids, 1.0)):
                own = [self._own_ids[token] for token in tokens if token in self._own_ids]
                np.add.at(scores, own, amount)
            known = self.target_ids < len(sample.mass)
            scores[known] += sample.mass[self.target_ids[known]]
        by_id = 1.0 / (self.target_ids + _FLATTENED)
        by_id *= sum(len(sample.token_ids) for sample in samples) / by_id.sum()
        scores += by_id
        return scores
