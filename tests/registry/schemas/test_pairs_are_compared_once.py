"""Pairs of parts are compared once, also where they refer to each other."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kwire.registry.schemas.pairs import (
    DEPTH_MAX,
    DIFFERENCES_MAX,
    PAIRS_MAX,
    Pairs,
    SchemaDifference,
    TooComplexError,
    below,
)

WRONG = SchemaDifference("WRONG", ())


class Graph:
    """Parts that are compatible if all they refer to are, with choices between some."""

    def __init__(self) -> None:
        self.pairs = Pairs()
        self.compared: list[str] = []
        self.rules: dict[str, Callable[[], list[SchemaDifference]]] = {}
        self.nodes: dict[str, object] = {}

    def differences(self, name: str) -> list[SchemaDifference]:
        node = self.nodes.setdefault(name, object())

        def compare() -> list[SchemaDifference]:
            self.compared.append(name)
            return self.rules[name]()

        return self.pairs.differences(node, node, compare)


def test_pair_is_compared_once() -> None:
    graph = Graph()
    graph.rules["a"] = lambda: [*graph.differences("b"), *graph.differences("b")]
    graph.rules["b"] = lambda: [WRONG]
    assert graph.differences("a") == [WRONG, WRONG]
    assert graph.compared == ["a", "b"]


def test_pair_that_refers_to_itself_is_compatible() -> None:
    graph = Graph()
    graph.rules["a"] = lambda: graph.differences("b")
    graph.rules["b"] = lambda: graph.differences("a")
    assert graph.differences("a") == []


def test_pair_that_was_compatible_only_if_another_is_gets_compared_again() -> None:
    """b counts as compatible while a is compared; then a is not, and so b is not either."""
    graph = Graph()
    graph.rules["top"] = lambda: [] if not graph.differences("a") else graph.differences("b")
    graph.rules["a"] = lambda: [*graph.differences("b"), WRONG]
    graph.rules["b"] = lambda: graph.differences("a")
    assert graph.differences("top") == [WRONG]


def test_pair_that_was_compatible_if_a_compatible_one_is_stays_known() -> None:
    graph = Graph()
    graph.rules["top"] = lambda: [*graph.differences("a"), *graph.differences("b")]
    graph.rules["a"] = lambda: graph.differences("b")
    graph.rules["b"] = lambda: graph.differences("a")
    assert graph.differences("top") == []
    assert graph.compared == ["top", "a", "b"]


def test_comparison_ends_at_the_depth_limit() -> None:
    graph = Graph()

    def rule(number: int) -> Callable[[], list[SchemaDifference]]:
        return lambda: graph.differences(str(number + 1))

    graph.rules = {str(number): rule(number) for number in range(DEPTH_MAX + 1)}
    with pytest.raises(TooComplexError):
        graph.differences("0")


def test_comparison_ends_at_the_limit_of_pairs() -> None:
    pairs = Pairs()
    nodes = [object() for _ in range(PAIRS_MAX + 1)]
    for node in nodes[:-1]:
        pairs.differences(node, node, list)
    with pytest.raises(TooComplexError):
        pairs.differences(nodes[-1], nodes[-1], list)


def test_differences_of_a_pair_are_cut_off() -> None:
    pairs, node = Pairs(), object()
    found = pairs.differences(node, node, lambda: [WRONG] * (DIFFERENCES_MAX + 5))
    assert len(found) == DIFFERENCES_MAX


def test_differences_below_have_the_path_in_front() -> None:
    assert below([SchemaDifference("X", ("c",))], "a", "b") == [
        SchemaDifference("X", ("a", "b", "c"))
    ]
