"""The commands against a running broker, as a person or a script runs them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from kwire.cli.grammar.asking import NO_TERMINAL

Kwire = Callable[..., CompletedProcess[str]]

pytestmark = pytest.mark.slow  # each command is a process: 0.15 s


def test_topics_commands_create_alter_describe_and_delete(kwire: Kwire, unique: str) -> None:
    kwire("topics", "create", unique, "-p", "3", "-c", "retention.ms=1000000")
    assert unique in kwire("topics", "list").stdout
    listed = {
        topic["topic"]: topic for topic in json.loads(kwire("topics", "list", "--json").stdout)
    }
    assert listed[unique]["partitions"] == 3
    again = kwire("topics", "create", unique, status=1)
    assert again.stderr.startswith(f"kwire: create topic {unique}: TOPIC_ALREADY_EXISTS")
    assert "exists" in kwire("topics", "create", unique, "--if-not-exists").stderr
    kwire(
        "topics", "alter", unique, "-p", "4", "-c", "cleanup.policy=compact", "-d", "retention.ms"
    )
    (described,) = json.loads(kwire("topics", "describe", unique, "--json").stdout)
    assert described["configs"] == {"cleanup.policy": "compact"}
    assert [p["partition"] for p in described["partitions"]] == [0, 1, 2, 3]
    assert "cleanup.policy=compact" in kwire("topics", "describe", unique).stdout
    unanswered = kwire("topics", "delete", unique, status=2)
    assert NO_TERMINAL in unanswered.stderr
    assert unanswered.stdout.split()[-3:] == [unique, "4", "0"]
    would = kwire("topics", "delete", unique, "nosuch", "--if-exists", "--dry-run").stderr
    assert would == "topic nosuch does not exist\nnothing is changed: 1 topic would be deleted\n"
    kwire("topics", "delete", unique, "--yes")
    for answer in ("--yes", "--dry-run"):
        refused = kwire("topics", "delete", unique, answer, status=1)
        assert "UNKNOWN_TOPIC_OR_PARTITION" in refused.stderr
    kwire("topics", "delete", unique, "--if-exists", "--yes")


def test_produced_lines_are_consumed_unchanged(kwire: Kwire, unique: str, tmp_path: Path) -> None:
    kwire("topics", "create", unique, "-p", "1")
    done = kwire("produce", unique, stdin="one\ntwo\r\nlast without end")
    assert done.stderr == f"3 records written to {unique}\n"
    lines = tmp_path / "lines"
    lines.write_text("k:four\nk:gone\n")
    kwire("produce", unique, str(lines), "-k", ":", "-z", "zstd", "-H", "h=x", "--null", "gone")
    done = kwire("consume", unique, "--from-beginning", "--exit")
    assert done.stdout == "one\ntwo\nlast without end\nfour\nnull\n"
    assert done.stderr == "5 records\n"
    assert kwire("consume", unique, "-o", "-2", "-e", "-k", "=").stdout == "k=four\nk=null\n"
    assert kwire("consume", unique, "-o", "1", "-n", "1").stdout == "two\n"
    full = kwire("consume", unique, "-o", "3", "-n", "1", "-f", "full").stdout
    assert f"{unique}-0 @ 3  k  four  h=x" in full


def test_json_of_consume_copies_a_topic_by_produce(kwire: Kwire, unique: str) -> None:
    source, copy = f"{unique}-a", f"{unique}-b"
    kwire("topics", "create", source, copy, "-p", "2")
    kwire("produce", source, "-p", "1", "--key", "k", stdin="one\ntwo\n")
    lines = kwire("consume", source, "--from-beginning", "-e", "-f", "json").stdout
    kwire("produce", copy, "-f", "json", "--keep-partitions", stdin=lines)
    copied = kwire("consume", copy, "--from-beginning", "-e", "-f", "json").stdout
    assert copied.replace(copy, source) == lines


def test_produce_reports_a_line_that_is_not_a_record(kwire: Kwire, unique: str) -> None:
    lines = '{"value": "good"}\nbad\n'
    done = kwire("produce", unique, "-f", "json", stdin=lines, status=1)
    assert "kwire: line 2 is not a record: not JSON" in done.stderr


def test_produce_stops_at_a_record_with_a_misspelt_value_field(
    kwire: Kwire, unique: str, tmp_path: Path
) -> None:
    """What comes before it is written; a misspelt field makes no null of what it says."""
    lines = tmp_path / "lines"
    lines.write_text('{"key": "k", "value": "good"}\n{"key": "k", "valeu": "typo"}\n')
    done = kwire("produce", unique, str(lines), "-f", "json", status=1)
    why = 'unknown field "valeu": did you mean value?'
    assert done.stderr.splitlines()[-2:] == [
        f"1 record written to {unique}",
        f"kwire: line 2 of {lines} is not a record: {why}",
    ]
    assert kwire("consume", unique, "-o", "earliest", "-e").stdout == "good\n"


def test_produce_handles_line_ends_and_empty_lines_as_kafka_does(kwire: Kwire, unique: str) -> None:
    """As Kafka's console producer: CRLF ends a line too, an empty line is an empty value."""
    kwire("produce", unique, stdin="a\r\n\r\n\nlast\r")
    lines = kwire("consume", unique, "-o", "earliest", "-e", "-f", "json").stdout.splitlines()
    assert [json.loads(line)["value"] for line in lines] == ["a", "", "", "last"]
    done = kwire("produce", unique, "-k", ":", stdin="k:v\n\n", status=1)
    assert done.stderr.endswith("kwire: line 2 is not a record: it has no key separator\n")


def test_commands_suggest_the_nearest_name_for_an_unknown_one(kwire: Kwire, unique: str) -> None:
    meant = f"did you mean {unique}?\n"
    misspelt = unique[:-1]
    assert kwire("produce", unique, stdin="x\n").stderr.startswith(f"topic {unique} is new")
    assert f"topic {misspelt} is new: {meant}" in kwire("produce", misspelt, stdin="x\n").stderr
    kwire("topics", "delete", misspelt, "--yes")
    for words in (
        ("consume", misspelt),
        ("consume", misspelt, "-g", "g"),
        ("produce", misspelt, "--no-create"),
        ("topics", "describe", misspelt.upper()),
        ("topics", "delete", misspelt, "--yes"),
        ("topics", "alter", misspelt, "-p", "9"),
        ("configs", "describe", "topic", misspelt),
        ("configs", "alter", "topic", misspelt, "-s", "retention.ms=1"),
        ("groups", "reset", "g", "--topic", misspelt, "--to-latest", "--type", "share"),
    ):
        assert kwire(*words, stdin="x\n", status=1).stderr.endswith(meant), words
    meant = "did you mean retention.ms?\n"
    for words in (
        ("topics", "create", f"{unique}-2", "-c", "retention.mss=1"),
        ("topics", "alter", unique, "-c", "retention.mss=1"),
        ("configs", "alter", "topic", unique, "-s", "retention.mss=1"),
        ("configs", "describe", "topic", unique, "-k", "retention.mss"),
    ):
        assert kwire(*words, status=1).stderr.endswith(meant), words


def test_configs_of_an_unknown_broker_are_refused_at_once(kwire: Kwire) -> None:
    """The cluster says at once who belongs to it."""
    for words in (("describe", "broker", "7"), ("alter", "broker", "7", "-s", "x=1")):
        done = kwire("configs", *words, "--timeout", "600", status=1)
        assert done.stderr == "kwire: broker 7 is not in the cluster now; brokers are: 1\n"


def test_ping_prints_each_broker_with_address_and_time(kwire: Kwire, bootstrap: str) -> None:
    (broker,) = json.loads(kwire("ping", "--json").stdout)["brokers"]
    assert isinstance(broker.pop("ms"), float)
    assert broker == {"broker": 1, "address": bootstrap, "rack": None, "trouble": None}
    assert kwire("ping").stdout.splitlines()[1].split() == [
        "BROKER",
        "ADDRESS",
        "RACK",
        "MS",
        "TROUBLE",
    ]


def test_consume_starts_at_the_given_time_offset_or_partition(kwire: Kwire, unique: str) -> None:
    lines = "".join(f'{{"value": "{n}", "timestamp": {n}000}}\n' for n in range(1, 6))
    kwire("topics", "create", unique, "-p", "1")
    kwire("produce", unique, "-f", "json", stdin=lines)
    since = kwire("consume", unique, "--since", "1970-01-01T00:00:03", "-e")
    assert since.stdout == "3\n4\n5\n"
    assert kwire("consume", unique, "-p", "0", "-e").stdout == ""
    done = kwire("consume", unique, "-p", "4", "-e", status=1)
    assert done.stderr == f"kwire: topic {unique} has partitions 0, not 4\n"


def test_group_commands_describe_reset_and_delete_a_classic_group(
    kwire: Kwire, unique: str
) -> None:
    kwire("topics", "create", unique, "-p", "2")
    kwire("produce", unique, "-p", "0", stdin="1\n2\n3\n")
    first = kwire("consume", unique, "-g", unique, "--from-beginning", "-n", "2")
    assert first.stdout == "1\n2\n"
    assert f"the group assigns {unique}:0-1 to this member" in first.stderr
    assert kwire("consume", unique, "-g", unique, "-e").stdout == "3\n"
    assert unique in kwire("groups", "list").stdout
    described = json.loads(kwire("groups", "describe", unique, "--json").stdout)
    assert (described["state"], described["members"]) == ("Empty", [])
    assert described["partitions"][0] == {
        "topic": unique, "partition": 0, "committed": 3, "end": 3, "lag": 0, "member": None,
    }  # fmt: skip
    earliest = ["groups", "reset", unique, "--topic", unique, "--to-earliest"]
    planned = kwire(*earliest, "--dry-run")
    assert "nothing is changed" in planned.stderr
    assert NO_TERMINAL in kwire(*earliest, status=2).stderr
    assert kwire("consume", unique, "-g", unique, "-e").stdout == ""
    kwire("groups", "reset", unique, "--all-topics", "--shift-by", "-1", "--execute")
    assert kwire("consume", unique, "-g", unique, "-e").stdout == "3\n"
    forget = ["groups", "delete-offsets", unique, "-t", f"{unique}:0"]
    assert kwire(*forget, "--dry-run").stdout.split()[-3:] == [unique, "0", "3"]
    assert NO_TERMINAL in kwire(*forget, status=2).stderr
    kwire(*forget, "--yes")
    assert kwire("groups", "delete", unique, "--dry-run").stdout.split()[-1] == "0"
    assert NO_TERMINAL in kwire("groups", "delete", unique, status=2).stderr
    kwire("groups", "delete", unique, "--yes")
    assert "GROUP_ID_NOT_FOUND" in kwire("groups", "describe", unique, status=1).stderr


def test_group_commands_describe_and_delete_a_consumer_group(
    kwire: Kwire, bootstrap: str, unique: str
) -> None:
    kwire("topics", "create", unique, "-p", "2")
    kwire("produce", unique, "-p", "0", stdin="1\n2\n3\n")
    member = ["consume", unique, "-g", unique, "--group-protocol", "consumer"]
    first = kwire(*member, "--from-beginning", "-n", "2")
    assert first.stdout == "1\n2\n"
    assert f"the group assigns {unique}:0-1 to this member" in first.stderr
    for types, there in (("consumer", True), ("classic", False)):
        listed = json.loads(kwire("groups", "list", "--type", types, "--json").stdout)
        assert (unique in {group["group"] for group in listed}) is there
    running = subprocess.Popen(
        [sys.executable, "-m", "kwire.cli", *member, "-b", bootstrap],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert running.stdout is not None
    assert running.stdout.readline() == "3\n"
    described = json.loads(kwire("groups", "describe", unique, "--json").stdout)
    (one,) = described["members"]
    assert (described["type"], one["protocol"]) == ("consumer", "consumer")
    assert described["epoch"] == described["assignment_epoch"] == one["epoch"]
    assert one["assignment"] == one["target"] == f"{unique}:0-1"
    shown = kwire("groups", "describe", unique, "--members").stdout
    assert "TARGET" in shown
    running.terminate()
    assert running.wait(120) == 0
    running.stdout.close()
    described = json.loads(kwire("groups", "describe", unique, "--json").stdout)
    assert (described["state"], described["partitions"][0]["lag"]) == ("Empty", 0)
    kwire("groups", "delete", unique, "--yes")
    assert "GROUP_ID_NOT_FOUND" in kwire("groups", "describe", unique, status=1).stderr


def test_consume_leaves_its_group_at_sigterm(kwire: Kwire, bootstrap: str, unique: str) -> None:
    kwire("topics", "create", unique, "-p", "1")
    kwire("produce", unique, stdin="1\n")
    member = subprocess.Popen(
        [sys.executable, "-m", "kwire.cli", "consume", unique, "-b", bootstrap, "-g", unique,
         "--from-beginning"],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert member.stdout is not None
    assert member.stdout.readline() == "1\n"
    member.terminate()
    assert member.wait(120) == 0
    member.stdout.close()
    described = json.loads(kwire("groups", "describe", unique, "--json").stdout)
    assert (described["state"], described["partitions"][0]["committed"]) == ("Empty", 1)


def test_configs_commands_alter_and_describe_a_topic(kwire: Kwire, unique: str) -> None:
    kwire("topics", "create", unique, "-p", "1")
    kwire(
        "configs",
        "alter",
        "topic",
        unique,
        "-s",
        "retention.ms=5",
        "--append",
        "cleanup.policy=compact",
    )
    shown = kwire("configs", "describe", "topic", unique).stdout
    assert "DYNAMIC_TOPIC_CONFIG" in shown
    assert "compression.type" not in shown
    assert "compression.type" in kwire("configs", "describe", "topic", unique, "--all").stdout
    (retention,) = json.loads(
        kwire("configs", "describe", "topic", unique, "-k", "retention.ms", "--json").stdout
    )
    assert retention["value"] == "5"
    assert retention["without_effect"] is None
    assert "without effect" not in shown
    wrong = kwire("configs", "alter", "topic", unique, "-s", "retention.ms=soon", status=1)
    assert "INVALID_CONFIG" in wrong.stderr


def test_configs_describe_marks_settings_without_effect(kwire: Kwire, unique: str) -> None:
    kwire("topics", "create", unique, "--config", "local.retention.ms=5", "--config", "flush.ms=7")
    header, *rows = kwire("configs", "describe", "topic", unique).stdout.splitlines()
    marked = {row.split()[0]: row[header.index("WITHOUT EFFECT") :].strip() for row in rows}
    assert marked == {
        "flush.ms": "",
        "local.retention.ms": "not served yet: tiered storage",
        "min.insync.replicas": "",
    }
    (told,) = json.loads(
        kwire("configs", "describe", "topic", unique, "-k", "local.retention.ms", "--json").stdout
    )
    assert told["without_effect"] == "not served yet: tiered storage"


def test_unreachable_bootstrap_server_is_reported(kwire: Kwire) -> None:
    done = kwire("topics", "list", "-b", "127.0.0.1:1", status=1)
    assert done.stderr == "kwire: cannot connect to 127.0.0.1:1: connection refused\n"
    done = kwire("topics", "list", "-b", "no-such-host.invalid", status=1)
    assert "the host name cannot be resolved" in done.stderr


def test_unreachable_advertised_address_is_reported(
    broker_factory: Callable[[dict[str, str]], object], kwire: Kwire
) -> None:
    from kwire.testing import BrokerProcess

    broker = broker_factory({"advertised.listeners": "PLAINTEXT://no-such-host.invalid:9092"})
    assert isinstance(broker, BrokerProcess)
    arguments = ("topics", "create", "t", "--timeout", "1", "-b", broker.bootstrap)
    done = kwire(*arguments, status=1)
    assert "advertised.listeners must name an address that this machine can reach" in done.stderr


def test_quotas_commands_set_list_and_remove(kwire: Kwire, unique: str) -> None:
    kwire(
        "quotas", "set", "--user", unique, "producer_byte_rate=1048576", "request_percentage=12.5"
    )
    kwire("quotas", "set", "--user", unique, "--client-default", "consumer_byte_rate=5")
    shown = kwire("quotas", "list", "--user", unique).stdout
    assert "1048576" in shown
    assert "(default)" in shown
    (both, alone) = json.loads(kwire("quotas", "list", "--user", unique, "--json").stdout)
    assert both == {
        "entity": {"client-id": None, "user": unique},
        "quotas": {"consumer_byte_rate": 5.0},
    }
    assert alone["quotas"] == {"producer_byte_rate": 1048576.0, "request_percentage": 12.5}
    refused = kwire("quotas", "set", "--user", unique, "producer_byte_rate=0.5", status=1)
    assert "cannot be a fractional value" in refused.stderr
    assert "give the entity" in kwire("quotas", "set", "producer_byte_rate=5", status=2).stderr
    misspelt = kwire("quotas", "set", "--user", unique, "producer_byte_rat=5", status=1)
    assert "did you mean producer_byte_rate?" in misspelt.stderr
    assert "a number" in kwire("quotas", "set", "--ip", "::1", "x=y", status=2).stderr
    kwire("quotas", "remove", "--user", unique, "producer_byte_rate", "request_percentage")
    kwire("quotas", "remove", "--user", unique, "--client-default", "consumer_byte_rate")
    assert json.loads(kwire("quotas", "list", "--user", unique, "--json").stdout) == []
