"""Shapes of drafted trees: a parents array in, and out of it its rows' children and its paths.

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
