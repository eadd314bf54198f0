"""One slot's proposal while a draft model makes it, token by token."""

from __future__ import annotations

from collections.abc import Callable

from edge_spec.drafters.draw import DrawWatch
from edge_spec.drafters.token_map import Translation
from edge_spec.errors import NoMassError
from edge_spec.sampling import likeliest, top_gap
from edge_spec.types import NO_PROPOSAL, Dist, Logits, Proposal, Slot


class Chain:
    """A chain of at most `length` tokens, extended by one row of the draft's logits at a time.

    `more` is `Budget.more`. `room` is how many draft tokens may be chosen before the draft's
    context is full.

    A draft that lacks a token of the target can still write its bytes. Where its likeliest tokens
    spell one that stands in the text (`Translation.words`), that one is proposed in their place,
    so that a name which a trimmed vocabulary does not hold is guessed again once it was read;
    Timor et al. 2025 (arXiv:2502.05202) match strings of two vocabularies to the same end. Whether
    to spell is seen from the draft's likeliest token, never from one that was drawn, and what is
    spelled is a deterministic node, so the output's law stays the target's.
    """

    def __init__(
        self,
        slot: Slot,
        length: int,
        room: int,
        more: Callable[[float], int] | None,
        watch: DrawWatch | None,
        translation: Translation | None,
    ) -> None:
        self.slot = slot
        self.next_id = -1
        """The draft token to be decoded next."""
        self._length = self._most = length
        self._room = room
        self._more = more
        self._watch = watch
        self._translation = translation
        self._history = list(slot.tokens)
        self._tokens: list[int] = []
        self._dists: list[Dist | None] = []
        self._spelled: tuple[int, ...] = ()
        """The draft tokens of a word that is being spelled; its first one is the chain's last node."""
        self._ended = length == 0

    @property
    def full(self) -> bool:
        """Whether no more rows are wanted."""
        return self._ended or self._room == 0 or (len(self._tokens) >= self._length and not self._spelled)

    def proposal(self, source: str) -> Proposal:
        return Proposal.chain(self._tokens, self._dists, source) if self._tokens else NO_PROPOSAL

    def extend(self, logits: Logits) -> None:
        """Choose the next token by the draft's own distribution, if it is worth drafting.

        `logits` are by the target's ids, shape (n_vocab of the target or fewer,). Where biases leave
        the draft none of its tokens the chain ends: the target may have others.
        """
        try:
            self._extend(logits)
        except NoMassError:
            self._ended = True

    def _extend(self, logits: Logits) -> None:
        if self._spelled:
            top = likeliest(self.slot.draft_sampler(logits, self._history))
            if self._spells_on(top):
                return
            if len(self._spelled) > 1:  # the row stands behind more than the chain's last node
                self._ended = True
                return
            self._spelled = ()
            if self.full:
                return
        if self._more is not None:
            self._length = min(self._most, len(self._tokens) + self._more(top_gap(logits)))
            if self.full:
                return
        self._choose(self.slot.draft_sampler(logits, self._history))

    def _choose(self, dist: Dist) -> None:
        """Add a node."""
        drawn = dist.only is None  # with one candidate nothing is: that node is deterministic
        if self._translation is not None and self._translation.words:
            top = likeliest(dist)
            spelling = (self._translation.draft_id(top),)
            if spelling in self._translation.words:
                self._spelled = spelling
                drawn = False
        if drawn and self._watch is not None:
            self._watch.say(len(self._history), dist)
            drawn = not self._watch.choice.takes_likeliest(dist)
        token = self.slot.coupling.draw(dist, len(self._history)) if drawn else likeliest(dist)
        self._tokens.append(token)
        self._dists.append(dist if drawn else None)
        self._read(token)

    def _spells_on(self, token: int) -> bool:
        """Take `token` as the next part of the word, if it is one; the whole word becomes the node."""
        assert self._translation is not None, "else nothing is spelled"
        spelling = (*self._spelled, self._translation.draft_id(token))
        if spelling not in self._translation.words:
            return False
        self._spelled = spelling
        self._read(token)
        word = self._translation.words[spelling]
        if word is not None:
            self._history[-len(spelling) :] = [word]
            self._tokens[-1] = word
            self._spelled = ()
        return True

    def _read(self, token: int) -> None:
        self._history.append(token)
        self._room -= 1
        self.next_id = token if self._translation is None else self._translation.draft_id(token)
