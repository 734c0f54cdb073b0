"""The lines beside a list of nodes show their dependencies; damaged graphs are drawn, too."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from horsies.cli.workflows.dag_lines import MOST_RAILS, railed

UP, DOWN, LEFT, RIGHT = "up", "down", "left", "right"
ARMS = {
    "│": {UP, DOWN},
    "─": {LEFT, RIGHT},
    "├": {UP, DOWN, RIGHT},
    "┤": {UP, DOWN, LEFT},
    "┼": {UP, DOWN, LEFT, RIGHT},
    "└": {UP, RIGHT},
    "┘": {UP, LEFT},
    "┴": {UP, LEFT, RIGHT},
}


def read_back(lines: list[tuple[int, str]]) -> dict[int, set[int]]:
    """Read the dependencies of each node back from the lines."""
    found: dict[int, set[int]] = {}
    running: dict[int, int] = {}
    for index, text in lines:
        (own,) = [at for at, sign in enumerate(text) if sign == "●"]
        found[index] = {running[own]} if own in running else set()
        for step in (-1, 1):
            at = own + step
            while 0 <= at < len(text) and text[at] != " ":
                if text[at] in "├┤┼└┘┴":
                    found[index].add(running[at])
                if text[at] in "├└┤┘" and ARMS[text[at]].isdisjoint({LEFT} if step < 0 else {RIGHT}):
                    break
                at += step
        running = {at: running[at] for at, sign in enumerate(text) if sign != "●" and DOWN in ARMS.get(sign, ())}
        running[own] = index
    return found


graphs = st.integers(0, 9).flatmap(
    lambda count: st.tuples(*(st.lists(st.integers(0, index - 1) if index else st.nothing()) for index in range(count)))
)


@given(graphs)
@settings(deadline=None, max_examples=400)
def test_who_waits_for_whom_can_be_read_back_from_the_lines(needs: tuple[list[int], ...]) -> None:
    graph = {index: tuple(each) for index, each in enumerate(needs)}
    lines = railed(graph)
    assert sorted(line.index for line in lines) == sorted(graph)
    assert all(not line.unseen for line in lines)
    assert read_back([(line.index, line.rails) for line in lines]) == {
        index: set(each) for index, each in graph.items()
    }


anything = st.dictionaries(st.integers(0, 6), st.lists(st.integers(0, 9), max_size=5), max_size=7)


@given(anything)
@settings(deadline=None, max_examples=300)
def test_circles_and_nodes_that_are_gone_are_told_in_words(graph: dict[int, list[int]]) -> None:
    lines = railed(graph)
    assert sorted(line.index for line in lines) == sorted(graph)
    seen = read_back([(line.index, line.rails) for line in lines])
    for line in lines:
        assert seen[line.index] | set(line.unseen) == set(graph[line.index])
        assert seen[line.index].isdisjoint(line.unseen)


def drawn(graph: dict[int, tuple[int, ...]], *, unicode: bool = True) -> list[str]:
    return [f"{line.rails} {line.index}" for line in railed(graph, unicode=unicode)]


def test_a_branch_is_followed_to_its_end_and_a_join_closes_the_lines() -> None:
    graph = {0: (), 1: (0,), 2: (0,), 3: (0,), 4: (1, 2, 3), 5: (4,)}
    assert drawn(graph) == ["● 0", "├─● 1", "├─│─● 2", "● │ │ 3", "●─┴─┘ 4", "● 5"]
    assert drawn(graph, unicode=False) == ["* 0", "+-* 1", "+-|-* 2", "* | | 3", "*-'-' 4", "* 5"]


def test_nodes_that_have_nothing_to_do_with_each_other_do_not_touch() -> None:
    assert drawn({0: (), 1: (), 2: ()}) == ["● 0", "  ● 1", "● 2"]


def test_a_chain_is_one_line() -> None:
    assert drawn({index: (index - 1,) if index else () for index in range(4)}) == ["● 0", "● 1", "● 2", "● 3"]


def test_where_too_many_lines_run_side_by_side_words_take_their_place() -> None:
    count = MOST_RAILS + 5
    graph = {0: (), **dict.fromkeys(range(1, count), (0,)), count: tuple(range(1, count))}
    lines = railed(graph)
    assert {line.rails for line in lines} == {""}
    assert lines[-1].unseen == tuple(range(1, count))


@pytest.mark.parametrize("shape", ["fan", "chain"])
def test_a_thousand_nodes_are_drawn_at_once(shape: str) -> None:
    if shape == "chain":
        graph: dict[int, tuple[int, ...]] = {index: (index - 1,) if index else () for index in range(1_000)}
    else:
        graph = {0: (), **dict.fromkeys(range(1, 999), (0,)), 999: tuple(range(1, 999))}
    assert len(railed(graph)) == 1_000
