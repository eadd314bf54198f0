"""Shapes of drafted trees, asserted as literal lists."""

from __future__ import annotations

import doctest
from collections.abc import Callable, Sequence

import pytest

from edge_spec import tree

TREE = (-1, -1, 0, 0, 2)
CHAIN = (-1, 0, 1)
STAR = (-1, -1, -1)


def test_the_worked_examples_are_true() -> None:
    result = doctest.testmod(tree)
    assert result.failed == 0
    assert result.attempted == 2


def test_children_of_nothing_of_a_chain_of_a_star_and_of_a_tree() -> None:
    assert [tree.children(parents) for parents in ((), CHAIN, STAR, TREE)] == [
        [[]],
        [[0], [1], [2], []],
        [[0, 1, 2], [], [], []],
        [[0, 1], [2, 3], [], [4], [], []],
    ]


@pytest.mark.parametrize(("node", "expected"), [(-1, []), (0, [0]), (1, [1]), (3, [0, 3]), (4, [0, 2, 4])])
def test_a_path_runs_from_the_first_level_to_the_node(node: int, expected: list[int]) -> None:
    assert tree.path(TREE, node) == expected


@pytest.mark.parametrize(
    ("parents", "message"),
    [
        ((0,), r"parents\[0\] is 0, but the first node's parent must be -1"),
        (
            (-1, 1),
            r"parents\[1\] is 1, but a parent must be -1 \(the context\) or an earlier node \(0 to 0\)",
        ),
        ((-1, 0, 5), r"parents\[2\] is 5"),
        ((-1, -2), r"parents\[1\] is -2"),
    ],
)
@pytest.mark.parametrize("function", [tree.check, tree.children, lambda p: tree.path(p, 0)])
def test_a_parent_must_be_the_context_or_an_earlier_node(
    function: Callable[[Sequence[int]], object], parents: Sequence[int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        function(parents)
