"""Regular expressions of ListTransactions match the same ids as RE2/J in Apache Kafka.

`patterns.txt` has its results: the ids that each pattern matches, or that the pattern is invalid.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.init_producer_id import InitProducerIdRequest
from kwire.codecs.messages.list_transactions import ListTransactionsRequest
from kwire.coordinators.contract.pattern import InvalidRegex, RegexPattern
from tests.txn.apache import ApacheTransactions

PATTERNS = Path(__file__).parent / "patterns.txt"
IDS = ["p-a", "p-ab", "p-aab", "p-A1", "p-1_2", "p-a.b", "p-é", "p-a b", "p-[x]", "p-a{2}"]
NONE = "no regular expression"


def lines(matched: Callable[[str], str]) -> list[str]:
    patterns = [line.partition(" -> ")[0] for line in PATTERNS.read_text().splitlines()]
    return [f"{pattern} -> {matched(pattern)}" for pattern in patterns]


def of_ours(pattern: str) -> str:
    try:
        compiled = RegexPattern(pattern)
    except InvalidRegex:
        return NONE
    return " ".join(sorted(repr(name) for name in IDS if compiled.matches(name)))


DIFFERENT = {
    "(p-a{100}){11}": NONE,  # more than 1,000 repetitions, all in all
    "p-\\C+": "'p-1_2' 'p-A1' 'p-[x]' 'p-a b' 'p-a' 'p-a.b' 'p-aab' 'p-ab' 'p-a{2}' 'p-é'",
    "(?P<n>p)-(?P<n>a)": "'p-a'",
    "(?P<é>p)-a": "'p-a'",
}
"""Patterns for which RE2 and RE2/J differ; docs/differences.md names them."""


def test_patterns_match_recorded_kafka_results() -> None:
    wanted = PATTERNS.read_text().splitlines()
    patterns = [line.partition(" -> ")[0] for line in wanted]
    wanted = [
        f"{pattern} -> {DIFFERENT[pattern]}" if pattern in DIFFERENT else line
        for pattern, line in zip(patterns, wanted, strict=True)
    ]
    assert lines(of_ours) == wanted


@pytest.mark.long
def test_recorded_pattern_results_match_apache_kafka(
    apache_transactions: ApacheTransactions, rewrite: bool
) -> None:
    for name in IDS:
        apache_transactions.ask(ApiKey.INIT_PRODUCER_ID, 5, InitProducerIdRequest(name, 60_000))

    def of_apache(pattern: str) -> str:
        request = ListTransactionsRequest(transactional_id_pattern=pattern)
        response = apache_transactions.ask(ApiKey.LIST_TRANSACTIONS, 2, request)
        if response.error_code:
            assert response.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
            return NONE
        names = {state.transactional_id for state in response.transaction_states}
        return " ".join(sorted(repr(name) for name in names & {*IDS}))

    given_now = lines(of_apache)
    if rewrite:
        PATTERNS.write_text("\n".join(given_now) + "\n")
    assert given_now == PATTERNS.read_text().splitlines()


atoms = st.sampled_from(
    [
        "a",
        "b",
        ".",
        "[ab]",
        "[^a]",
        "\\d",
        "\\w",
        "\\b",
        "\\B",
        "^",
        "$",
        "\\.",
        "-",
        "1",
        " ",
        "\n",
    ]
)
patterns = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=4).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda ways: f"(?:{'|'.join(ways)})"),
        st.tuples(
            inner, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{0,2}", "*?", "{2,}"])
        ).map(lambda both: f"(?:{both[0]}){both[1]}"),
        inner.map(lambda part: f"(?m:{part})"),
        inner.map(lambda part: f"(?s:{part})"),
        inner.map(lambda part: f"(?i:{part})"),
    ),
    max_leaves=8,
)


@given(patterns, st.text("abAB1 -.\n_", max_size=8))
def test_pattern_matches_like_pythons_re(pattern: str, text: str) -> None:
    """Python's engine backtracks and has the same results, but in corners that are left out."""
    if "$" in pattern or (text == "" and "\\B" in pattern):
        return
    theirs = re.compile(pattern, re.ASCII)
    assert RegexPattern(pattern).matches(text) == (theirs.fullmatch(text) is not None)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("(a+)+b", "a" * 20_000),
        ("(a|a)*b", "a" * 20_000),
        ("(a|aa)+$b", "a" * 20_000),
        ("(.*)(.*)(.*)(.*)(.*)x", "a" * 20_000),
        ("(a?){500}a{500}", "a" * 500),
    ],
)
def test_pattern_takes_linear_time(pattern: str, text: str) -> None:
    before = time.process_time()
    RegexPattern(pattern).matches(text)
    assert time.process_time() - before < 5, "seconds, where a backtracking engine takes years"


def test_compiled_patterns_are_not_cached() -> None:
    """RE2's module remembers patterns of up to a megabyte each."""
    RegexPattern("a{1000}")
    cache = re2._Regexp._make
    assert cache.cache_info().currsize == 0


@pytest.mark.parametrize(
    "pattern", ["\\pL{1000}", "a{1000}" * 500, "(" * 10**5 + ")" * 10**5, "((){999}){999}"]
)
def test_large_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(InvalidRegex):
        RegexPattern(pattern)


@given(st.text("()[]{}|*+?^$\\.-:,ab1QEpLxdwP<>=!i&~", max_size=12))
def test_any_text_compiles_or_raises_invalid_regex(pattern: str) -> None:
    try:
        compiled = RegexPattern(pattern)
    except InvalidRegex:
        return
    compiled.matches("a1")
