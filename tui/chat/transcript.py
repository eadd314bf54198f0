"""What is on screen, as plain data, and the fold that turns an answer's events into it.

A block is one message. Its spans tell the whole story of the answer, the losing guesses too;
its `text` holds only what was emitted. A character belongs to the token that completed it, so
a span never shows half of one.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, assert_never

from edge_spec import (
    Alternatives,
    Calibrating,
    Detokenizer,
    Drafted,
    Event,
    Fate,
    Finished,
    Inspected,
    Notice,
    Prefilled,
    Proposal,
    RoundTimings,
    Started,
    Stats,
    TextStream,
    Verified,
)

Kind = Literal["text", "accepted", "residual", "bonus", "plain", "rejected", "discarded", "drafted"]
"""How a span came: "text" is somebody's own (or stored) text, "drafted" awaits its verdict."""

Role = Literal["you", "prompt", "model", "system", "note", "error"]
"""Whose a block is; "prompt" is all that a model was given before its answer, templates and all."""

UNEMITTED: Final[frozenset[Kind]] = frozenset({"rejected", "discarded", "drafted"})
"""The kinds that are no part of the text: never copied, exported or sent to a model."""


@dataclass(frozen=True, slots=True)
class TokenInfo:
    """Everything that can be told about one token.

    `round` counts from 1 within the answer, `depth` from 0 within the round. `p` and `q` are as
    the coupling used them; None where they were not computed, `q` also where the token was
    chosen and not drawn. `source` is the drafter's name, or "target" for the target's own.
    """

    token: int
    kind: Kind
    round: int
    depth: int
    p: float | None
    q: float | None
    source: str
    timings: RoundTimings | None


@dataclass(frozen=True, slots=True)
class Span:
    """The characters that one token completed, perhaps none; control characters still raw."""

    text: str
    kind: Kind
    info: TokenInfo | None = None


@dataclass(slots=True, eq=False)
class Block:
    """One message on screen.

    `stored_ids` are the ids of text that came back from a file, where nothing is known of how
    each token came. `alternatives` is by the token's index in `token_ids`.
    """

    role: Role
    spans: list[Span] = field(default_factory=list)
    alternatives: dict[int, Alternatives] = field(default_factory=dict)
    stored_ids: tuple[int, ...] = ()

    @classmethod
    def of_text(cls, role: Role, text: str, token_ids: Sequence[int] = ()) -> Block:
        """A message whose text is known, and for a stored answer its ids."""
        return cls(role, [Span(text, "text")] if text else [], stored_ids=tuple(token_ids))

    @property
    def text(self) -> str:
        """What copy, export and the next prompt contain: only what was emitted."""
        return "".join(span.text for span in self.spans if span.kind not in UNEMITTED)

    @property
    def token_ids(self) -> list[int]:
        """The emitted ids in order."""
        return [*self.stored_ids, *(info.token for info in map(_emitted, self.spans) if info is not None)]

    def alternatives_at(self, span: int) -> Alternatives | None:
        """What else could have stood where `spans[span]` stands, if that was inspected.

        A rejected token's place is that of the token which was emitted instead.
        """
        wanted = self.spans[span].info
        if wanted is None:
            return None
        index = len(self.stored_ids) - 1
        for info in map(_emitted, self.spans):
            if info is not None:
                index += 1
                if (info.round, info.depth) == (wanted.round, wanted.depth):
                    return self.alternatives.get(index)
        return None


@dataclass(slots=True, eq=False)
class Transcript:
    """The messages on screen, in order."""

    blocks: list[Block] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Round:
    """One finished round in numbers: drafted = accepted + what was rejected or discarded."""

    num_drafted: int
    num_accepted: int
    num_tokens: int
    timings: RoundTimings


class AnswerFold:
    """Folds the events of one answer into a block.

    While the answer streams, `stats` counts as it will at the end, its times being sums of the
    rounds' times; the reading of the prompt is in none of them. `Finished` brings the exact ones.
    `reading` is (done, total) of the prompt's tokens until the first token is there,
    `draft_reading` the same of the draft model, which reads while the target goes on plainly.
    """

    def __init__(self, block: Block, piece: Callable[[int], bytes], stop: Sequence[str] = ()) -> None:
        self.block = block
        self.stats = Stats()
        self.rounds: list[Round] = []
        self.reading: tuple[int, int] | None = None
        self.draft_reading: tuple[int, int] | None = None
        self.prompt_ids: tuple[int, ...] = ()
        self.finished: Finished | None = None
        self._piece = piece
        self._characters = Detokenizer(piece)
        self._stream = TextStream(piece, stop)
        # Characters that may yet turn out to begin a stop string, with the span they belong to.
        self._held: collections.deque[tuple[int, str]] = collections.deque()
        self._num_judged = len(block.spans)
        self._last_with_bytes: int | None = None
        self._draft_was_reading = False
        self._first_inspected = 0
        self._num_emitted = len(block.token_ids)

    def see(self, event: Event) -> int | None:
        """Fold one event in; return the index of the first span that changed, if one did."""
        match event:
            case Started(prompt_ids=ids, cached=cached, draft_cached=draft_cached):
                self.prompt_ids = ids
                self.reading = (cached, len(ids))
                self.stats.prompt_tokens = len(ids)
                self.stats.cached_tokens, self.stats.draft_cached_tokens = cached, draft_cached
            case Prefilled(model="target", done=done, total=total):
                self.reading = (done, total)
            case Prefilled(done=done, total=total):
                self._draft_was_reading = True
                self.draft_reading = (done, total) if done < total else None
            case Drafted(proposal=proposal):
                return self._show_drafted(proposal)
            case Verified():
                return self._show_verdict(event)
            case Inspected(rows=rows):
                self.block.alternatives.update(enumerate(rows, self._first_inspected))
            case Calibrating() | Notice():
                pass
            case Finished(stats=stats):
                self.finished, self.stats = event, stats
                return self.end()
            case _:
                assert_never(event)
        return None

    def end(self) -> int | None:
        """Nothing more will come, Finished or not: drop unjudged guesses, show what was held back."""
        self.reading = self.draft_reading = None
        dropped = self._num_judged if self._num_judged < len(self.block.spans) else None
        del self.block.spans[self._num_judged :]
        if self._last_with_bytes is not None and (rest := self._characters.flush()):
            self._held.append((self._last_with_bytes, rest))
        return _earlier(self._release(self._stream.flush()), dropped)

    def _show_drafted(self, proposal: Proposal) -> int:
        self.block.spans[self._num_judged :] = [
            self._node_span(proposal, node, "drafted", None, None) for node in range(len(proposal))
        ]
        return self._num_judged

    def _show_verdict(self, event: Verified) -> int | None:
        proposal, verdict = event.proposal, event.verdict
        self._count(event)
        spans = self.block.spans
        del spans[self._num_judged :]

        def show(nodes: Sequence[int], kind: Kind) -> None:
            spans.extend(
                self._node_span(proposal, node, kind, verdict.target_probs[node], event.timings)
                for node in nodes
            )

        def lost(fate: Fate) -> list[int]:
            return [node for node, its_fate in enumerate(verdict.fates) if its_fate is fate]

        show(verdict.path, "accepted")
        emitted = list(range(self._num_judged, len(spans)))
        show(lost(Fate.REJECTED), "rejected")
        show(lost(Fate.DISCARDED), "discarded")
        if verdict.origin != "accepted":
            depth, number = verdict.num_accepted, len(self.rounds)
            token = verdict.tokens[-1]
            info = TokenInfo(token, verdict.origin, number, depth, None, None, "target", event.timings)
            emitted.append(len(spans))
            spans.append(Span("", verdict.origin, info))

        first: int | None = self._num_judged
        self._num_judged = len(spans)
        self._first_inspected = self._num_emitted
        self._num_emitted += len(verdict.tokens)
        for index, token in zip(emitted, verdict.tokens, strict=True):
            first = _earlier(self._push(index, token), first)
        return first

    def _push(self, index: int, token: int) -> int | None:
        """`spans[index]` is the next emitted token; return the first span that got text."""
        if self._piece(token):
            self._last_with_bytes = index
        if text := self._characters.push(token):
            self._held.append((index, text))
        return self._release(self._stream.push(token))

    def _release(self, text: str) -> int | None:
        """Give the next held characters, which are `text`, to the spans they belong to."""
        first = self._held[0][0] if text else None
        left = len(text)
        while left:
            index, held = self._held.popleft()
            if len(held) > left:
                self._held.appendleft((index, held[left:]))
            part = held[:left]
            span = self.block.spans[index]
            self.block.spans[index] = replace(span, text=span.text + part)
            left -= len(part)
        return first

    def _node_span(
        self, proposal: Proposal, node: int, kind: Kind, p: float | None, timings: RoundTimings | None
    ) -> Span:
        token, dist = proposal.tokens[node], proposal.dists[node]
        depth, parent = 0, proposal.parents[node]
        while parent >= 0:
            depth, parent = depth + 1, proposal.parents[parent]
        number = len(self.rounds) + (kind == "drafted")
        q = None if dist is None else dist.prob(token)
        info = TokenInfo(token, kind, number, depth, p, q, proposal.source, timings)
        # An accepted token's text comes out of the stream; a guess is decoded on its own.
        text = "" if kind == "accepted" else self._piece(token).decode("utf-8", errors="replace")
        return Span(text, kind, info)

    def _count(self, event: Verified) -> None:
        timings, verdict, stats = event.timings, event.verdict, self.stats
        self.reading = None
        self.rounds.append(Round(len(event.proposal), verdict.num_accepted, len(verdict.tokens), timings))
        stats.add(event.proposal, verdict)
        stats.wall_s += timings.wall_s
        stats.timers.sample_s += timings.sample_s
        if len(self.rounds) == 1:
            stats.time_to_first_token_s = timings.wall_s
            stats.timers.prefill_s += timings.verify_s
        else:
            stats.timers.verify_s += timings.verify_s
        if self._draft_was_reading:
            stats.timers.draft_prefill_s += timings.draft_s
        else:
            stats.timers.draft_s += timings.draft_s
        self._draft_was_reading = False


def _emitted(span: Span) -> TokenInfo | None:
    return None if span.kind in UNEMITTED else span.info


def _earlier(first: int | None, second: int | None) -> int | None:
    return min((index for index in (first, second) if index is not None), default=None)
