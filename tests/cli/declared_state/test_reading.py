"""What a file declares, and every mistake in it at once."""

from __future__ import annotations

import pytest

from kwire.cli.declared_state.document import DeclarationError, Document, read
from kwire.cli.declared_state.reading import declared_by
from kwire.cli.declared_state.state import (
    Declared,
    DeclaredAcl,
    DeclaredTopic,
    DeclaredUser,
    Inline,
    Secret,
    SecretSource,
    SeedFile,
    SeedFormat,
)

WHOLE = """
topics:
  orders:
    partitions: 6
    replication: 3
    configs: {cleanup.policy: [compact, delete], retention.ms: 86400000, preallocate: true}
    records:
    - {key: k, value: {fruit: apples}}
    - plain
    - {file: more.jsonl}
  bare:
  rows: {records: {file: rows.csv, key: id}}
users:
  alice:
    password: {env: ALICE}
    mechanisms: [scram-sha-512, SCRAM-SHA-256]
    iterations: 8192
  bob: {mechanisms: {SCRAM-SHA-256: 4097}}
acls:
- {principal: User:alice, topic: ord, pattern: prefixed, operations: [read, DESCRIBE_CONFIGS]}
- {principal: "User:*", cluster: true, operations: describe, host: 10.0.0.1, permission: DENY}
quotas:
- {user: alice, client-id: null, producer_byte_rate: 1048576}
- {ip: 127.0.0.1, connection_creation_rate: 2.5}
groups: {billing: {consumer.session.timeout.ms: 45000}}
client-metrics: {all: {metrics: "", interval.ms: 1000}}
"""


def test_declared_by_parses_all_sections() -> None:
    found = declared_by(read(WHOLE, "x.yaml"))
    assert found == Declared(
        topics={
            "orders": DeclaredTopic(
                6,
                3,
                {
                    "cleanup.policy": "compact,delete",
                    "retention.ms": "86400000",
                    "preallocate": "true",
                },
                (
                    Inline(
                        {"key": "k", "value": {"fruit": "apples"}},
                        "x.yaml, line 8: topics.orders.records[0]",
                    ),
                    Inline({"value": "plain"}, "x.yaml, line 9: topics.orders.records[1]"),
                    SeedFile("more.jsonl", SeedFormat.RECORDS),
                ),
            ),
            "bare": DeclaredTopic(),
            "rows": DeclaredTopic(seeds=(SeedFile("rows.csv", SeedFormat.CSV, "id"),)),
        },
        users={
            "alice": DeclaredUser(
                Secret(SecretSource.ENV, "ALICE"), {"SCRAM-SHA-512": 8192, "SCRAM-SHA-256": 8192}
            ),
            "bob": DeclaredUser(None, {"SCRAM-SHA-256": 4097}),
        },
        acls=frozenset(
            {
                DeclaredAcl("topic", "ord", "prefixed", "User:alice", "*", "read", "allow"),
                DeclaredAcl(
                    "topic", "ord", "prefixed", "User:alice", "*", "describe-configs", "allow"
                ),
                DeclaredAcl(
                    "cluster", "kafka-cluster", "literal", "User:*", "10.0.0.1", "describe", "deny"
                ),
            }
        ),
        quotas={
            (("user", "alice"), ("client-id", None)): {"producer_byte_rate": 1048576.0},
            (("ip", "127.0.0.1"),): {"connection_creation_rate": 2.5},
        },
        groups={"billing": {"consumer.session.timeout.ms": "45000"}},
        client_metrics={"all": {"metrics": "", "interval.ms": "1000"}},
    )


def test_declared_by_distinguishes_missing_and_empty_sections() -> None:
    assert declared_by(Document(None)) == Declared()
    assert declared_by(Document({"topics": None, "acls": []})) == Declared(
        topics={}, acls=frozenset()
    )


def test_declared_by_reports_all_errors_at_once() -> None:
    text = "topics:\n  t:\n    partitons: 3\n    partitions: 0\nuser: {}\n"
    with pytest.raises(DeclarationError) as told:
        declared_by(read(text, "f.yaml"))
    assert str(told.value).splitlines() == [
        "f.yaml, line 5: user: unknown: did you mean users?",
        "f.yaml, line 3: topics.t.partitons: unknown: did you mean partitions?",
        "f.yaml, line 4: topics.t.partitions: is to be a number from 1 to 2147483647, not 0",
    ]


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ([], "the declaration: is to be names with values, not a list"),
        ({"topics": {"a b": None}}, "topics.a b: Topic name is invalid: 'a b' contains"),
        ({"topics": {"t": {"partitions": True}}}, "a number from 1 to 2147483647, not true"),
        ({"topics": {"t": {"configs": {"x": None}}}}, "topics.t.configs.x: is to be a value"),
        ({"topics": {"t": {"configs": {"x": {}}}}}, "topics.t.configs.x: is to be a value"),
        ({"topics": {"t": {"records": 5}}}, "topics.t.records: is to be a list, not 5"),
        ({"topics": {"t": {"records": [{"key": 1}]}}}, r"records\[0\]: a record has a value"),
        ({"topics": {"t": {"records": [{"vaule": 1}]}}}, "did you mean value?"),
        ({"topics": {"t": {"records": [{"file": "a.txt"}]}}}, "say its format: records, values"),
        (
            {"topics": {"t": {"records": [{"file": "a.jsonl", "key": "x"}]}}},
            "is a column of CSV",
        ),
        ({"users": {"u": {"mechanisms": ["SCRAM-SHA-1"]}}}, '"SCRAM-SHA-1" is none of scram'),
        ({"users": {"u": {"mechanisms": []}}}, "one at least"),
        ({"users": {"u": {"iterations": 1}}}, "from 4096 to 16384"),
        ({"users": {"u": {"password": 12345}}}, "in quotes, where it is a number"),
        ({"acls": [{"topic": "t", "operations": "read"}]}, "principal: is to be a text, not null"),
        ({"acls": [{"principal": "al", "topic": "t", "operations": "read"}]}, "as User:al"),
        ({"acls": [{"principal": "User:a", "operations": "read"}]}, "is to name one of topic"),
        ({"acls": [{"principal": "User:a", "topic": "t"}]}, "operations are missing"),
        (
            {"acls": [{"principal": "User:a", "topic": "t", "operations": "raed"}]},
            "did you mean read?",
        ),
        (
            {"acls": [{"principal": "User:a", "cluster": "x", "operations": "read"}]},
            "cluster: is to be true",
        ),
        ({"quotas": [{"producer_byte_rate": 1}]}, "say whose"),
        ({"quotas": [{"user": "a", "ip": "1.2.3.4"}]}, "say whose"),
        ({"quotas": [{"user": "a"}, {"user": "a"}]}, r"quotas\[1\]: its quotas stand there twice"),
        ({"quotas": [{"user": "a", "request_percentage": "x"}]}, "a number from 0 on"),
        ({"quotas": [{"user": "a", "producer_rate": 1}]}, "did you mean producer_byte_rate?"),
    ],
)
def test_declared_by_reports_each_kind_of_error(value: object, told: str) -> None:
    with pytest.raises(DeclarationError, match=told):
        declared_by(Document(value))


def test_error_messages_do_not_show_passwords() -> None:
    assert "geheim" not in repr(declared_by(Document({"users": {"a": {"password": "geheim"}}})))
    with pytest.raises(DeclarationError) as told:
        declared_by(Document({"users": {"a": {"password": ["geheim"]}}}))
    assert "geheim" not in str(told.value)
