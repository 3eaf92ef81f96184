"""Finds the cycles of a graph: nodes that need each other's results."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


def cycle_numbers(needs: Sequence[Collection[int]]) -> dict[int, int]:
    """For each index on a cycle, the number of its group: in a group, each index needs each other, directly or not.

    `needs[i]` are the indices that index `i` needs. This is Tarjan's algorithm, without recursion.
    """
    order: dict[int, int] = {}  # when each was first met
    lowest: dict[int, int] = {}
    open_ones: list[int] = []
    is_open: set[int] = set()
    groups: dict[int, int] = {}
    for start in range(len(needs)):
        if start in order:
            continue
        order[start] = lowest[start] = len(order)
        open_ones.append(start)
        is_open.add(start)
        stack = [(start, iter(needs[start]))]
        while stack:
            index, rest = stack[-1]
            other = next(rest, None)
            if other is None:
                stack.pop()
                if stack:
                    lowest[stack[-1][0]] = min(lowest[stack[-1][0]], lowest[index])
                if lowest[index] == order[index]:
                    group: list[int] = []
                    while not group or group[-1] != index:
                        group.append(open_ones.pop())
                    is_open.difference_update(group)
                    if len(group) > 1 or index in needs[index]:
                        groups.update(dict.fromkeys(group, index))
            elif other not in order:
                order[other] = lowest[other] = len(order)
                open_ones.append(other)
                is_open.add(other)
                stack.append((other, iter(needs[other])))
            elif other in is_open:
                lowest[index] = min(lowest[index], order[other])
    return groups


def shortest_cycle(first: int, needs: Sequence[Collection[int]], groups: dict[int, int]) -> list[int]:
    """The shortest way from an index on a cycle to itself, each index before one that needs it."""
    users: dict[int, int] = {}  # by index, one that needs it, on the shortest way to `first`
    waiting = deque([first])
    while first not in users:
        index = waiting.popleft()
        for other in needs[index]:
            if groups.get(other) == groups[first] and other not in users:
                users[other] = index
                waiting.append(other)
    cycle = [first]
    while users[cycle[-1]] != first:
        cycle.append(users[cycle[-1]])
    return cycle
