"""Where a text's end occurred before: the index against a search of everything."""

from __future__ import annotations

import random

import pytest

from edge_spec.drafters.suffixes import LENGTHS, MAX_CANDIDATES, MAX_MATCH, Match, SuffixIndex


def searched(tokens: list[int]) -> Match | None:
    """The longest earlier occurrence of the end, the newest of equals, by looking at every place."""
    found = []
    for place in range(len(tokens) - 2, -1, -1):
        length = 0
        while length < min(MAX_MATCH, place + 1) and tokens[place - length] == tokens[-1 - length]:
            length += 1
        if length >= min(LENGTHS):
            found.append((length, place + 1))
    if not found:
        return None
    length, end = max(found, key=lambda item: item[0])
    least = max(level for level in LENGTHS if level <= length)
    others = [tokens[at] for near, at in found if near >= least][:MAX_CANDIDATES]
    return Match(end, length, any(token != tokens[end] for token in others))


def held(tokens: list[int]) -> SuffixIndex:
    index = SuffixIndex()
    index.sync(tokens)
    return index


@pytest.mark.parametrize(
    "tokens, match",
    [
        ([], None),
        ([1, 2], None),
        ([1, 2, 3, 1], None),
        ([1, 2, 3, 1, 2], Match(2, 2)),
        ([9, 1, 2, 7, 5, 1, 2, 8, 1, 2], Match(7, 2, contested=True)),
        ([9, 1, 2, 7, 5, 1, 2, 7, 1, 2], Match(7, 2)),
        ([9, 1, 2, 7, 5, 1, 2, 8, 9, 1, 2], Match(3, 3, contested=True)),
        ([4, 4, 4, 4], Match(3, 3)),
    ],
)
def test_the_longest_match_counts_and_the_newest_of_equals(tokens: list[int], match: Match | None) -> None:
    assert held(tokens).match() == match


def test_what_followed_is_copied_and_goes_round_where_the_text_repeats_itself() -> None:
    index = held([1, 2, 3, 4, 1, 2])
    match = index.match()
    assert match is not None
    assert index.continuation(match, 2) == [3, 4]
    assert index.continuation(match, 7) == [3, 4, 1, 2, 3, 4, 1]


def test_after_any_edits_the_index_is_that_of_the_text_itself() -> None:
    rng = random.Random(5)
    for _ in range(8):
        index, tokens = SuffixIndex(), []
        for _ in range(60):
            match rng.randrange(4):
                case 0 | 1:
                    tokens = tokens + [rng.randrange(40) for _ in range(rng.choice([1, 2, 5, 60]))]
                case 2 if tokens:
                    tokens = tokens[: rng.randrange(len(tokens))]
                case 3 if tokens:
                    start = rng.randrange(len(tokens))
                    tokens = tokens + tokens[start : start + rng.randrange(40)]
                case _:
                    tokens = [*tokens[:-3], 1, 2, 3]
            index.sync(tokens)
            assert len(index) == len(tokens)
            assert index.match() == searched(tokens)


def test_a_large_text_grows_token_by_token_like_at_once() -> None:
    rng = random.Random(2)
    tokens = [int(rng.paretovariate(1)) % 500 for _ in range(5000)]
    grown = SuffixIndex()
    for token in tokens:
        grown.extend([token])
    assert grown.match() == held(tokens).match() == searched(tokens)
