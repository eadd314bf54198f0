"""Shapes of drafted trees: a parents array in, and out of it whatever somebody needs.

`parents[i]` is the index of node i's parent, always below i; -1 is the context. The worked
examples all use this tree of five nodes, whose parents are (-1, -1, 0, 0, 2)::

    context ─┬─ 0 ─┬─ 2 ─── 4
             │     └─ 3
             └─ 1
"""

from __future__ import annotations

from collections.abc import Sequence


def check(parents: Sequence[int]) -> None:
    """Raise ValueError unless every parent is -1 or an earlier node."""
    for node, parent in enumerate(parents):
        if not -1 <= parent < node:
            raise ValueError(
                f"parents[{node}] is {parent}, but a parent must be -1 (the context) or an earlier node "
                f"(0 to {node - 1})."
                if node
                else f"parents[0] is {parent}, but the first node's parent must be -1 (the context)."
            )


def children(parents: Sequence[int]) -> list[list[int]]:
    """Each row's children in index order: entry 0 is the context's, entry i + 1 node i's.

    The rows are those of `types.Scores`. Raises ValueError for a malformed array.

    >>> children((-1, -1, 0, 0, 2))
    [[0, 1], [2, 3], [], [4], [], []]
    """
    check(parents)
    rows: list[list[int]] = [[] for _ in range(len(parents) + 1)]
    for node, parent in enumerate(parents):
        rows[parent + 1].append(node)
    return rows


def depths(parents: Sequence[int]) -> list[int]:
    """Each node's level; the context's children are at 0.

    Raises ValueError for a malformed array.

    >>> depths((-1, -1, 0, 0, 2))
    [0, 0, 1, 1, 2]
    """
    check(parents)
    levels: list[int] = []
    for parent in parents:
        levels.append(0 if parent < 0 else levels[parent] + 1)
    return levels


def leaves(parents: Sequence[int]) -> list[int]:
    """The nodes without children, in index order.

    Raises ValueError for a malformed array.

    >>> leaves((-1, -1, 0, 0, 2))
    [1, 3, 4]
    """
    return [node for node, below in enumerate(children(parents)[1:]) if not below]


def path(parents: Sequence[int], node: int) -> list[int]:
    """The nodes from the first level down to `node`, which is the last; -1 gives [].

    Raises ValueError for a malformed array.

    >>> path((-1, -1, 0, 0, 2), 4)
    [0, 2, 4]
    """
    check(parents)
    nodes: list[int] = []
    while node >= 0:
        nodes.append(node)
        node = parents[node]
    return nodes[::-1]


def leaf_sets(parents: Sequence[int]) -> list[list[int]]:
    """For each node the ranks, in `leaves`, of the leaves at or below it, ascending.

    llama.cpp keeps one sequence a leaf, and a node's cell carries the sequence ids of all
    leaves that read it. A chain has one leaf, so every node's set is [0]. Raises ValueError
    for a malformed array.

    >>> leaf_sets((-1, -1, 0, 0, 2))
    [[1, 2], [0], [2], [1], [2]]
    """
    sets: list[list[int]] = [[] for _ in parents]
    for rank, leaf in enumerate(leaves(parents)):
        for node in path(parents, leaf):
            sets[node].append(rank)
    return sets
