"""Between a target's token ids and those of a draft whose vocabulary is not the same.

Two cases: a draft with a trimmed vocabulary, whose token i is the target's token
`target_ids[i]`; and a draft some of whose tokens spell something else than the target's of the
same id. Either way the draft reads the target's text spelled in its own tokens, and what it
proposes is mapped back: by id, or by the bytes of a token that it has read so (see `chain`).
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from edge_spec.types import Logits


class TokenMap:
    """Maps rows of draft logits to target ids, and target tokens to draft tokens.

    `target_ids` has the target's id of each draft token, strictly ascending; draft tokens from
    its length on are never proposed. The target ids in `masked` have no row of the draft's, and
    are spelled too. `target_piece(id)` and `draft_pieces()` give tokens' bytes; the latter is asked only once
    a token has to be spelled, since it looks at the whole vocabulary.
    """

    def __init__(
        self,
        num_target: int,
        target_ids: NDArray[np.integer] | Sequence[int],
        target_piece: Callable[[int], bytes],
        draft_pieces: Callable[[], Sequence[bytes]],
        masked: Sequence[int] = (),
    ) -> None:
        ids = np.asarray(target_ids, np.int64)
        assert len(ids) and int(ids[0]) >= 0 and int(ids[-1]) < num_target and bool((np.diff(ids) > 0).all())
        self.num_target = num_target
        self._target_ids = ids
        # A slice assigns three times as fast as an index array does.
        self._whole = int(ids[-1]) == len(ids) - 1
        self._masked = np.array([token for token in masked if token < num_target], np.int64)
        self._row: Logits = np.full(num_target, -np.inf, np.float32)
        self._draft_ids: NDArray[np.int64] = np.full(num_target, -1, np.int64)
        self._draft_ids[ids] = np.arange(len(ids))
        self._draft_ids[self._masked] = -1
        self._target_piece = target_piece
        self._draft_pieces = draft_pieces
        self._spellings: dict[int, tuple[int, ...]] = {}
        self._by_bytes: dict[bytes, int] = {}
        self._longest = 0

    def row(self, logits: Logits) -> Logits:
        """A draft's row by target id, shape (num_target,), -inf where nothing may be drafted.

        It is this object's own buffer, valid until the next call.
        """
        if self._whole:
            self._row[: len(self._target_ids)] = logits[: len(self._target_ids)]
        else:
            self._row[self._target_ids] = logits[: len(self._target_ids)]
        self._row[self._masked] = -np.inf
        return self._row

    def draft_id(self, token: int) -> int:
        """The draft's id of the target's `token`; -1 when it lacks it."""
        return int(self._draft_ids[token])

    def spell(self, token: int) -> tuple[int, ...]:
        """The draft tokens that stand for the target's `token`: one, or those that spell its bytes.

        Empty for a control token that the draft lacks; bytes that no draft token begins with are
        left out, which costs guesses and nothing else.
        """
        known = self._spellings.get(token)
        if known is None:
            draft_id = self.draft_id(token)
            known = (draft_id,) if draft_id >= 0 else self._spell_bytes(self._target_piece(token))
            self._spellings[token] = known
        return known

    def _spell_bytes(self, data: bytes) -> tuple[int, ...]:
        """Longest matches from the left."""
        if not self._longest:
            # Of tokens with the same bytes, the first: a vocabulary's own before those added to it.
            for token, piece in enumerate(self._draft_pieces()):
                self._by_bytes.setdefault(piece, token)
            self._by_bytes.pop(b"", None)
            self._longest = max(map(len, self._by_bytes), default=1)
        spelled: list[int] = []
        at = 0
        while at < len(data):
            for end in range(min(len(data), at + self._longest), at, -1):
                found = self._by_bytes.get(data[at:end])
                if found is not None:
                    spelled.append(found)
                    at = end
                    break
            else:
                at += 1
        return tuple(spelled)


class Translation:
    """One text in the draft's tokens, following the target's tokens as they grow and change.

    `words` has the tokens of the text that take several draft tokens, now or earlier: the target's
    id by its spelling, and None by each beginning of a spelling.
    """

    def __init__(self, token_map: TokenMap) -> None:
        self.draft_id = token_map.draft_id
        self.words: dict[tuple[int, ...], int | None] = {}
        self._map = token_map
        self._tokens: list[int] = []
        self._ids: list[int] = []
        self._ends: list[int] = []

    def follow(self, tokens: Sequence[int]) -> Sequence[int]:
        """The draft tokens of `tokens`; what an earlier call had in common is kept. Do not change it."""
        common = len(self._tokens)
        if self._tokens != tokens[:common]:
            pairs = enumerate(zip_longest(self._tokens, tokens[:common]))
            common = next(i for i, (mine, theirs) in pairs if mine != theirs)
            del self._tokens[common:], self._ends[common:]
            del self._ids[self._ends[-1] if self._ends else 0 :]
        for token in tokens[common:]:
            spelling = self._map.spell(token)
            self._tokens.append(token)
            self._ids.extend(spelling)
            self._ends.append(len(self._ids))
            if len(spelling) > 1:
                for length in range(1, len(spelling)):
                    self.words.setdefault(spelling[:length], None)
                self.words[spelling] = token
        return self._ids

    def length_of(self, tokens: Sequence[int]) -> int:
        """How many draft tokens spell `tokens`."""
        return sum(len(self._map.spell(token)) for token in tokens)

    def end(self, index: int) -> int:
        """How many draft tokens spell the target's tokens up to and with number `index`."""
        return self._ends[index]

    def num_covered(self, length: int) -> int:
        """How many of the target's tokens the first `length` draft tokens spell in full."""
        return bisect.bisect_right(self._ends, length)
