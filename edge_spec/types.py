"""The values that pass between drafter, target and engine, and the seams between them.

Words: p is the target, q the draft. A *row* is one token decoded by the target.
A *slot* is one text being generated. See docs/architecture.md.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    # Slow to import, and an interface that only passes these values on does without it.
    import numpy as np
    from numpy.typing import NDArray

    Logits = NDArray[np.float32]
    """One row of raw scores, shape (n_vocab,), or several, shape (n_rows, n_vocab)."""
else:
    Logits = Any

Message = Mapping[str, str]
"""{"role": "system" | "user" | "assistant", "content": text}"""

FinishReason = Literal["eog", "stop", "length", "context", "cancelled"]
"""Why a text ended: end-of-generation token, stop string, max tokens, context full, cancel."""


@dataclass(frozen=True, slots=True)
class Device:
    """A device that llama.cpp can compute on; memory in bytes. `kind` is cpu, gpu, igpu or accelerator."""

    name: str
    description: str
    kind: str
    free_bytes: int
    total_bytes: int


@dataclass(frozen=True, slots=True, eq=False)
class Dist:
    """A probability distribution over token ids, sparse after truncation.

    `ids` is strictly ascending int64, shape (n,); `probs` is float64, shape (n,), each > 0
    (dense distributions may hold zeros), summing to 1 up to rounding. Two distributions are
    aligned by token id, never by rank. `only` is the token of a distribution that is certain
    of it (n = 1), else None.
    """

    ids: NDArray[np.int64]
    probs: NDArray[np.float64]
    only: int | None = None

    def prob(self, token: int) -> float:
        """Probability of `token`; 0.0 when it was truncated away."""
        if self.only is not None:
            return float(token == self.only)
        index = int(self.ids.searchsorted(token))
        if index < len(self.ids) and self.ids[index] == token:
            return float(self.probs[index])
        return 0.0


class Fate(enum.Enum):
    """What became of a drafted token.

    DISCARDED tokens were never judged: they follow the first rejection, or lie beyond the cut.
    """

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    DISCARDED = "discarded"


Origin = Literal["accepted", "residual", "bonus", "plain"]
"""How an emitted token came: an accepted draft, the target's replacement for a rejected one,
the target's extra one after full acceptance, or plain decoding (nothing was drafted)."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """Drafted tokens of one slot for one round: a tree, of which a chain is the usual case.

    `parents[i]` is the index of node i's parent, always < i; -1 is the context.
    `dists[i]` is the distribution that node i was *drawn* from, or None when the node was
    chosen deterministically (argmax, n-gram, top-k). Saying "drawn" of an argmax breaks
    losslessness. Siblings are judged in index order; a later sibling's `dists` entry is the
    distribution it was drawn from *given* the earlier ones (without replacement: the earlier
    ones removed and renormalised).
    """

    tokens: tuple[int, ...] = ()
    parents: tuple[int, ...] = ()
    dists: tuple[Dist | None, ...] = ()
    source: str = "none"

    @classmethod
    def chain(cls, tokens: Sequence[int], dists: Sequence[Dist | None], source: str) -> Proposal:
        """A proposal whose every node has the one before it as parent."""
        return cls(tuple(tokens), tuple(range(-1, len(tokens) - 1)), tuple(dists), source)

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def is_chain(self) -> bool:
        return self.parents == tuple(range(-1, len(self.tokens) - 1))


NO_PROPOSAL = Proposal()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one round decided for one slot.

    `tokens` are the emitted ones in order: the accepted path, then (unless cut) one token of
    the target's own, whose `origin` is residual, bonus or plain; origin is "accepted" when
    the text was cut inside the accepted path. `path` holds the accepted nodes' indices, root
    first. `fates` has one entry a node. `target_probs[i]` is p of node i given everything
    before it, or None where it was not computed.
    """

    tokens: tuple[int, ...]
    path: tuple[int, ...]
    fates: tuple[Fate, ...]
    origin: Origin
    target_probs: tuple[float | None, ...]
    finish: FinishReason | None = None

    @property
    def num_accepted(self) -> int:
        return len(self.path)

    @property
    def origins(self) -> tuple[Origin, ...]:
        """How each emitted token came, aligned with `tokens`."""
        one: Origin = "accepted"
        accepted = (one,) * len(self.path)
        return accepted if self.origin == "accepted" else (*accepted, self.origin)

    def count(self, fate: Fate) -> int:
        return sum(1 for f in self.fates if f is fate)


@dataclass(frozen=True, slots=True)
class Budget:
    """Rows a slot may use this round: from its pending tokens, and drafted on top of them.

    `source` names the drafter that shall propose where there are several. `more`, if given, is
    asked before each token that a model drafts, with the gap between the draft's two best logits:
    it says how many more tokens are worth drafting, this one included; 0 ends the draft. It is
    asked before the draw and never after it, which would bias the text. `window`, if given, lets
    a draft model begin anew with so many tokens of the text's end (and its first few); else it
    goes on from what it has read. `copies`, if given, says how many tokens of what followed a
    match, of such a length and contested or not, are worth adding behind a model's draft.
    """

    pending: int
    drafted: int
    source: str = ""
    more: Callable[[float], int] | None = None
    window: int | None = None
    copies: Callable[[int, bool], int] | None = None


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a drafter could do for a slot now.

    `match_length` tokens at the text's end occurred before (0: it copies nothing), `contested` if
    they went on in more than one way. `draft_lag` tokens would have to be decoded before the first
    can be drafted by a model; None: none can. `window` is the one that it reads the text with.
    """

    match_length: int = 0
    draft_lag: int | None = None
    contested: bool = False
    window: int | None = None


class Coupling(Protocol):
    """How a slot's tokens are drawn, and how drafted ones are judged; exact in both."""

    name: str

    def draw(self, dist: Dist, position: int) -> int:
        """Draw the token that will stand at `position` (its index in the slot's tokens)."""
        ...

    def verify(self, proposal: Proposal, target: Callable[[int], Dist], position: int) -> Verdict:
        """Judge `proposal`, whose first level stands at `position`.

        `target(i)` gives p after node i (-1: after the context) and is called only where it
        is needed, at most once a node.
        """
        ...

    def agreement(self, p: Dist, q: Dist, position: int) -> float:
        """How likely a token drawn from q at `position` is what the target has there."""
        ...

    def acceptance(self, p: float, q: float, accepted: bool) -> float:
        """How likely a drawn node was to be accepted that has these probabilities and was judged."""
        ...


class Sampler(Protocol):
    """Logits to a distribution, given the tokens before them (for penalties)."""

    def __call__(self, logits: Logits, history: Sequence[int]) -> Dist: ...


@dataclass(slots=True, eq=False)
class Slot:
    """One text being generated.

    `tokens` is everything known: the prompt, then what was emitted. `seq` is the sequence id
    it has in the caches. `cut` looks at freshly emitted tokens and says after how many of
    them the text ends, and why, or None. `reproducible` says that the text shall not depend on
    how many rows are decoded together, as far as the cache can see to that.
    """

    seq: int
    tokens: list[int]
    num_prompt: int
    max_tokens: int
    coupling: Coupling
    target_sampler: Sampler
    draft_sampler: Sampler
    cut: Callable[[Sequence[int]], tuple[int, FinishReason] | None]
    reproducible: bool = False
    finish: FinishReason | None = None

    @property
    def num_emitted(self) -> int:
        return len(self.tokens) - self.num_prompt


@dataclass(frozen=True, slots=True)
class Scores:
    """The target's logits of one round, valid until its next decode.

    One entry a slot: shape (1 + nodes, n_vocab), row 0 judging the first level and row i + 1
    judging node i's children; None while the slot still has pending rows.
    """

    rows: tuple[Logits | None, ...]


@dataclass(slots=True)
class Timers:
    """Seconds by phase, accumulated. The four model phases are time inside llama.cpp."""

    prefill_s: float = 0.0
    draft_prefill_s: float = 0.0
    draft_s: float = 0.0
    verify_s: float = 0.0
    sample_s: float = 0.0

    def __sub__(self, earlier: Timers) -> Timers:
        return Timers(*(getattr(self, f.name) - getattr(earlier, f.name) for f in fields(self)))

    def copy(self) -> Timers:
        return replace(self)


@dataclass(frozen=True, slots=True)
class Rows:
    """Tokens to append to a sequence; logits are wanted of those from index `wanted_from` on."""

    seq: int
    tokens: Sequence[int]
    wanted_from: int


class KVCache(Protocol):
    """The memory of one model, by sequence: what the target and the draft model work on.

    `llama.cache.Cache` is the real one, `testing.TableCache` one whose model is a table.
    """

    @property
    def num_vocab(self) -> int: ...

    @property
    def context_size(self) -> int:
        """The most tokens a sequence may hold."""
        ...

    @property
    def batch_size(self) -> int:
        """The most rows of one append."""
        ...

    @property
    def max_drafted(self) -> int:
        """The most rows a sequence may have logits of in one append, less one."""
        ...

    @property
    def steady_rows(self) -> int:
        """The fewest rows of an append whose logits do not depend on how many there are.

        1, or 2 where a single row is computed in another way than several are; 1 also where
        nothing helps.
        """
        ...

    @property
    def busy_s(self) -> float:
        """Seconds spent inside the model so far."""
        ...

    def length(self, seq: int) -> int:
        """How many tokens sequence `seq` holds."""
        ...

    def sync(self, seq: int, tokens: Sequence[int]) -> int:
        """Keep the longest common prefix with `tokens`, less the last one; return its length."""
        ...

    def rollback(self, seq: int, length: int) -> int:
        """Shorten `seq` to `length` tokens or, where the memory cannot stop there, fewer."""
        ...

    def mark(self, seq: int) -> None:
        """What `seq` holds now is sure to stay, so it is a good place to roll back to."""
        ...

    def append(self, parts: Sequence[Rows], min_rows: int = 1) -> Logits:
        """Decode rows behind their sequences; return the wanted rows' logits in order.

        Shape (rows wanted, n_vocab), valid until the next append. `min_rows`, at most
        `steady_rows`, are decoded at least where there is room, those added thrown away. When
        it raises (Cancelled, EngineError), no sequence is longer than before.
        """
        ...

    def clear(self) -> None:
        """Forget every sequence."""
        ...


class Target(Protocol):
    """The model whose distribution the output has."""

    @property
    def context_size(self) -> int: ...

    @property
    def batch_size(self) -> int:
        """The most rows of one round, all slots together."""
        ...

    @property
    def max_drafted(self) -> int:
        """The most rows drafted for a slot in one round."""
        ...

    def begin(self, slot: Slot) -> int:
        """Keep what the cache shares with `slot.tokens`; return how many tokens that is."""
        ...

    def num_pending(self, slot: Slot) -> int:
        """Tokens of the slot that are known but not cached; at least 1 before a round."""
        ...

    def score(
        self, slots: Sequence[Slot], proposals: Sequence[Proposal], budgets: Sequence[Budget]
    ) -> Scores:
        """Decode every slot's rows in one pass.

        Raises Cancelled with no sequence longer than before.
        """
        ...

    def commit(self, slots: Sequence[Slot], verdicts: Sequence[Verdict | None]) -> None:
        """Keep each accepted path and roll the rest back; None: the slot was not judged.

        Called before the slots' tokens grow.
        """
        ...


class Drafter(Protocol):
    """Guesses tokens; may be wrong, may return nothing, must say what it drew from what."""

    name: str

    def begin(self, slot: Slot) -> int:
        """A text starts, or goes on with edited tokens; return how many are cached."""
        ...

    def num_cached(self, slot: Slot) -> int:
        """How many of the slot's tokens the drafter has read; 0 when it reads none."""
        ...

    def outlook(self, slot: Slot) -> Outlook:
        """What could be proposed for the slot now, found out without decoding."""
        ...

    def propose(self, slots: Sequence[Slot], budgets: Sequence[Budget]) -> list[Proposal]:
        """One proposal a slot, at most `budget.drafted` nodes each. May raise Cancelled."""
        ...

    def observe(self, slots: Sequence[Slot], verdicts: Sequence[Verdict | None]) -> None:
        """Learn what became of the proposals; called before the slots' tokens grow."""
        ...
