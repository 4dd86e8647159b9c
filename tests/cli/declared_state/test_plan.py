"""Plans are made true by a cluster of plain values: what is applied once needs nothing more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from hypothesis import given
from hypothesis import strategies as st

from kwire.cli.declared_state.document import Document, read
from kwire.cli.declared_state.plan import (
    AddAcl,
    AlterConfigs,
    AlterQuotas,
    Change,
    PartitionIncrease,
    RemoveAcl,
    RemovePassword,
    SeedTopic,
    SetPassword,
    TopicCreation,
    TopicRemoval,
    plan,
    same_value,
)
from kwire.cli.declared_state.reading import OPERATIONS, QUOTAS, declared_by
from kwire.cli.declared_state.state import (
    ITERATIONS_MIN,
    MECHANISMS,
    Declared,
    DeclaredAcl,
    DeclaredTopic,
    DeclaredUser,
    Entity,
    FoundState,
    FoundTopic,
    Inline,
    Secret,
    SecretSource,
)
from kwire.cli.declared_state.words import lines, summary
from kwire.cli.declared_state.writing import content_of, text_of

K = TypeVar("K")
V = TypeVar("V")

# -- a cluster

KINDS = {"group": "groups", "client-metrics": "client_metrics"}


class Model:
    """What a cluster becomes by changes, as Apache Kafka makes them."""

    def __init__(self, found: FoundState) -> None:
        self.topics = dict(found.topics)
        self.users = {name: dict(its) for name, its in found.users.items()}
        self.acls = set(found.acls)
        self.quotas = {entity: dict(rates) for entity, rates in found.quotas.items()}
        self.settings = {
            "groups": {name: dict(its) for name, its in found.groups.items()},
            "client_metrics": {name: dict(its) for name, its in found.client_metrics.items()},
        }

    def found(self) -> FoundState:
        def kept(named: Mapping[K, dict[str, V]]) -> dict[K, dict[str, V]]:
            return {name: its for name, its in named.items() if its}

        return FoundState(
            self.topics,
            kept(self.users),
            frozenset(self.acls),
            kept(self.quotas),
            kept(self.settings["groups"]),
            kept(self.settings["client_metrics"]),
        )

    def make(self, change: Change) -> None:
        match change:
            case TopicCreation(name, partitions, replication, configs):
                assert name not in self.topics
                made = FoundTopic(partitions or 1, replication or 1, dict(configs), is_empty=True)
                self.topics[name] = made
            case PartitionIncrease(name, before, after):
                assert self.topics[name].partitions == before < after
                self._replace(name, partitions=after)
            case TopicRemoval(name):
                del self.topics[name]
            case SeedTopic(name):
                assert self.topics[name].is_empty
                self._replace(name, is_empty=False)
            case AlterConfigs("topic", name, edits):
                self._replace(name, configs=edited(self.topics[name].configs, edits))
            case AlterConfigs(kind, name, edits):
                named = self.settings[KINDS[kind]]
                named[name] = edited(named.get(name, {}), edits)
            case _:
                self._grant(change)

    def _grant(self, change: Change) -> None:
        match change:
            case SetPassword(name, mechanism, iterations):
                self.users.setdefault(name, {})[mechanism] = iterations
            case RemovePassword(name, mechanism):
                del self.users[name][mechanism]
            case AddAcl(acl):
                assert acl not in self.acls
                self.acls.add(acl)
            case RemoveAcl(acl):
                self.acls.remove(acl)
            case AlterQuotas(entity, rates):
                self.quotas[entity] = edited(self.quotas.get(entity, {}), rates)

    def _replace(self, name: str, **fields: Any) -> None:  # noqa: ANN401 - of any field
        there = self.topics[name]
        known = {each: getattr(there, each) for each in FoundTopic.__slots__}
        self.topics[name] = FoundTopic(**{**known, **fields})


def edited(settings: Mapping[str, Any], edits: Mapping[str, tuple[Any, Any]]) -> dict[str, Any]:
    for name, (before, _) in edits.items():
        assert settings.get(name) == before
    changed = {**settings, **{name: after for name, (_, after) in edits.items()}}
    return {name: value for name, value in changed.items() if value is not None}


# -- drawn

names = st.sampled_from(["a", "b", "c", "on", "1e3", "__own", "x.y"])
values = st.sampled_from(["1", "2", "true", "a,b", "", "0.50", "1:30", "null", "~", " x", "é"])
settings = st.dictionaries(st.sampled_from(["p", "q.r"]), values, max_size=2)
counts = st.integers(1, 4)
mechanisms = st.sampled_from(MECHANISMS)
acls = st.builds(
    DeclaredAcl,
    st.sampled_from(["topic", "group", "user"]),
    names,
    st.sampled_from(["literal", "prefixed"]),
    st.sampled_from(["User:a", "User:*"]),
    st.sampled_from(["*", "10.0.0.1"]),
    st.sampled_from(OPERATIONS),
    st.sampled_from(["allow", "deny"]),
)
entities: st.SearchStrategy[Entity] = st.one_of(
    st.tuples(st.tuples(st.just("user"), st.none() | names)),
    st.tuples(st.tuples(st.just("ip"), st.none() | st.just("10.0.0.1"))),
    st.tuples(
        st.tuples(st.just("user"), st.none() | names),
        st.tuples(st.just("client-id"), st.none() | names),
    ),
)
rates = st.dictionaries(
    st.sampled_from(QUOTAS), st.floats(0, 1e12, allow_nan=False), min_size=1, max_size=2
)
named_settings = st.dictionaries(
    names, st.dictionaries(st.sampled_from(["p", "q"]), values, min_size=1), max_size=3
)
clusters = st.builds(
    FoundState,
    st.dictionaries(
        names,
        st.builds(FoundTopic, counts, counts, settings, st.booleans(), st.booleans()),
        max_size=4,
    ),
    st.dictionaries(
        names, st.dictionaries(mechanisms, st.integers(4096, 16384), min_size=1), max_size=3
    ),
    st.frozensets(acls, max_size=4),
    st.dictionaries(entities, rates, max_size=3),
    named_settings,
    named_settings,
)
declarations = st.builds(
    Declared,
    st.none()
    | st.dictionaries(
        names,
        st.builds(
            DeclaredTopic,
            st.none() | counts,
            st.none(),
            settings,
            st.sampled_from([(), (Inline({"value": "v"}, "here"),)]),
        ),
        max_size=4,
    ),
    st.none()
    | st.dictionaries(
        names,
        st.builds(
            DeclaredUser,
            st.just(Secret(SecretSource.TEXT, "secret")),
            st.dictionaries(mechanisms, st.none() | st.integers(4096, 16384), min_size=1),
        ),
        max_size=3,
    ),
    st.none() | st.frozensets(acls, max_size=4),
    st.none() | st.dictionaries(entities, rates, max_size=3),
    st.none() | named_settings,
    st.none() | named_settings,
)


def made(declared: Declared, found: FoundState, *, prune: bool) -> FoundState:
    """What the cluster is once the plan is carried out, whatever its conflicts."""
    model = Model(found)
    for change in plan(declared, found, prune=prune).changes:
        model.make(change)
    return model.found()


@given(declarations, clusters, st.booleans())
def test_plan_after_applying_a_plan_is_empty(
    declared: Declared, found: FoundState, prune: bool
) -> None:
    after = made(declared, found, prune=prune)
    assert plan(declared, after, prune=prune).changes == []


@given(declarations, clusters)
def test_plan_without_prune_removes_nothing(declared: Declared, found: FoundState) -> None:
    after = made(declared, found, prune=False)
    assert found.topics.keys() <= after.topics.keys()
    assert found.acls <= after.acls
    pairs: list[tuple[Mapping[Any, Any], Mapping[Any, Any]]] = [
        (found.users, after.users),
        (found.quotas, after.quotas),
        (found.groups, after.groups),
        (found.client_metrics, after.client_metrics),
    ]
    for before, now in pairs:
        for name, its in before.items():
            assert its.keys() <= now[name].keys()


@given(declarations, clusters)
def test_plan_with_prune_keeps_declared_and_internal_topics(
    declared: Declared, found: FoundState
) -> None:
    after = made(declared, found, prune=True)
    own = {n for n, t in found.topics.items() if t.is_internal or n.startswith("__")}
    if declared.topics is None:
        assert after.topics == found.topics
    else:
        assert after.topics.keys() == declared.topics.keys() | own
        for name in own - declared.topics.keys():
            assert after.topics[name] == found.topics[name]
    for now, wanted, before in (
        (after.users, declared.users, found.users),
        (after.quotas, declared.quotas, found.quotas),
        (after.groups, declared.groups, found.groups),
        (after.client_metrics, declared.client_metrics, found.client_metrics),
    ):
        assert now.keys() == (before if wanted is None else wanted).keys()
    assert after.acls == (found.acls if declared.acls is None else declared.acls)


@given(clusters)
def test_export_applied_to_an_empty_cluster_gives_the_same_state(found: FoundState) -> None:
    text = text_of(found)
    declared = declared_by(read(text, "export.yaml"))
    after = made(declared, FoundState(), prune=False)
    kept = {
        name: FoundTopic(topic.partitions, topic.replication, topic.configs, is_empty=True)
        for name, topic in found.topics.items()
        if not topic.is_internal and not name.startswith("__")
    }
    assert after.topics == kept
    assert (after.users, after.acls) == (found.users, found.acls)
    assert (after.quotas, after.groups) == (found.quotas, found.groups)
    assert after.client_metrics == found.client_metrics
    assert text_of(after) == text
    assert plan(declared, found, prune=True).changes == []
    assert declared_by(Document(content_of(found, {}))) == declared


# -- examples


def test_plan_seeds_records_only_once() -> None:
    seeds = (Inline({"value": "v"}, "here"),)
    declared = Declared({"t": DeclaredTopic(seeds=seeds)})
    there = {"t": FoundTopic(1, 1, is_empty=False)}
    assert plan(declared, FoundState(there)).changes == []
    there = {"t": FoundTopic(1, 1, is_empty=True)}
    assert plan(declared, FoundState(there)).changes == [SeedTopic("t", seeds)]


def test_plan_reports_impossible_changes_as_conflicts() -> None:
    declared = Declared(
        {"t": DeclaredTopic(partitions=1, replication=3)},
        users={"u": DeclaredUser()},
        acls=frozenset(),
    )
    found = FoundState({"t": FoundTopic(2, 1)}, untold={"acls": "no authorizer", "quotas": "old"})
    made = plan(declared, found)
    assert made.changes == []
    assert made.conflicts == [
        "acls: no authorizer",
        "topic t has 2 partitions, and 1 are declared: the number can only be raised",
        "topic t has 1 replicas of each partition, and 3 are declared: `kwire cluster reassign`"
        " moves replicas",
        "user u is declared without a password, and for SCRAM-SHA-256 has none: add"
        " `password: {env: VARIABLE}` or `password: {file: NAME}`",
    ]


def test_plan_needs_no_password_for_an_existing_user() -> None:
    found = FoundState(users={"u": {MECHANISMS[0]: 8192}})
    assert plan(Declared(users={"u": DeclaredUser()}), found).changes == []
    secret = Secret(SecretSource.ENV, "X")
    there = Declared(users={"u": DeclaredUser(secret)})
    assert plan(there, found).changes == []
    assert plan(there, found, passwords=True).changes == [
        SetPassword("u", MECHANISMS[0], 8192, secret, is_new=False)
    ]
    other = Declared(users={"u": DeclaredUser(secret, {MECHANISMS[0]: ITERATIONS_MIN})})
    assert [type(each) for each in plan(other, found).changes] == [SetPassword]


def test_plan_adds_acls_before_users_and_removes_them_after() -> None:
    allow, deny = (
        DeclaredAcl("topic", "t", "literal", "User:u", "*", "all", p) for p in ("allow", "deny")
    )
    declared = Declared(
        users={"u": DeclaredUser(Secret(SecretSource.TEXT, "x"))}, acls=frozenset({allow, deny})
    )
    come = plan(declared, FoundState()).changes
    assert come[:2] == [AddAcl(deny), AddAcl(allow)]
    assert isinstance(come[2], SetPassword)
    found = FoundState(users={"u": {MECHANISMS[0]: 4096}}, acls=frozenset({allow, deny}))
    gone = plan(Declared(users={}, acls=frozenset()), found, prune=True).changes
    assert gone == [RemovePassword("u", MECHANISMS[0]), RemoveAcl(allow), RemoveAcl(deny)]


def test_same_value_compares_values_as_brokers_parse_them() -> None:
    assert same_value("0.50", "0.5")
    assert same_value("TRUE", "true")
    assert same_value("compact, delete", "compact,delete")
    assert not same_value("9007199254740993", "9007199254740992")
    assert not same_value("a,b", "b,a")
    assert not same_value("true", "false")
    assert not same_value("", "0")


def test_words_format_each_kind_of_change() -> None:
    text = """
topics:
  new: {partitions: 3, configs: {cleanup.policy: compact}, records: [1, {file: more.jsonl}]}
  more: {partitions: 4, configs: {retention.ms: 2}}
users: {alice: {password: secret}}
acls: [{principal: User:alice, topic: ord, pattern: prefixed, operations: read}]
quotas: [{user: null, client-id: c, producer_byte_rate: 1048576}]
groups: {}
"""
    found = FoundState(
        {"more": FoundTopic(2, 1, {"retention.ms": "1", "x": "y"}), "old": FoundTopic(1, 1)},
        groups={"g": {"a": "1"}},
    )
    made = plan(declared_by(read(text, "x")), found, prune=True)
    assert list(lines(made.changes)) == [
        "+ topic new: 3 partitions",
        "    cleanup.policy = compact",
        "~ topic more: 2 -> 4 partitions",
        "~ topic more",
        "    retention.ms: 1 -> 2",
        "    x: y -> the default",
        "+ records of topic new: 1 record, more.jsonl",
        "+ acl allow User:alice from * to read topic ord*",
        "+ user alice: SCRAM-SHA-256, 4096 iterations",
        "+ quotas of user (default), client-id c",
        "    producer_byte_rate = 1048576",
        "- group g",
        "    a: 1 -> the default",
        "- topic old, with its records",
    ]
    assert summary(made.changes) == "5 to add, 2 to change, 2 to remove"
