"""What an assistant changes with --allow-writes, and what stays secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.testing import Kafka
from kwire.testing.hosting.ports import free_port
from kwire.testing.hosting.process import BrokerProcess
from tests.conftest import finish
from tests.console.assistant.assisted import asked, assistant, refused

pytestmark = pytest.mark.slow

LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
PASSWORD = "correct-horse-battery"


async def test_assistant_that_may_write_changes_topics_records_and_offsets(
    broker: BrokerProcess,
) -> None:
    async with assistant(broker.bootstrap, "--allow-writes") as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        hints = tools["delete_topic"].annotations
        assert hints is not None
        assert (hints.read_only_hint, hints.destructive_hint) == (False, True)
        hints = tools["create_topic"].annotations
        assert hints is not None
        assert (hints.read_only_hint, hints.destructive_hint) == (False, False)

        await asked(client, "create_topic", topic="made", partitions=2)
        written = await asked(
            client, "produce_record", topic="made", value='{"total": 7}', key="a",
            key_form="text", headers={"trace": "1"}, partition=1,
        )  # fmt: skip
        assert written == {"partition": 1, "offset": 0}
        found = await asked(client, "read_messages", topic="made", where="value.total = 7")
        (record,) = found["records"]
        assert (record["key"], record["headers"]) == ("a", [["trace", "1"]])

        reset = {"group": "late", "to": "latest", "topics": ["made"]}
        assert "GROUP_ID_NOT_FOUND" in await refused(client, "reset_offsets", **reset)
        await asked(
            client, "set_config", kind="topic", name="made", config="retention.ms", value="1000"
        )
        described = await asked(client, "describe_topic", topic="made")
        assert described["own_configs"] == {"retention.ms": "1000"}
        await asked(client, "delete_topic", topic="made")
        assert (await asked(client, "list_topics"))["topics"] == []


async def test_assistant_injects_faults_and_moves_the_clock_by_the_control() -> None:
    with Kafka() as kafka:
        options = ("--control", str(kafka.control_port), "--allow-writes")
        async with assistant(kafka.bootstrap, *options) as client:
            await asked(client, "create_topic", topic="t", partitions=1)
            rule = await asked(
                client, "add_fault", api="Produce", topic="t", error="MESSAGE_TOO_LARGE", times=1
            )
            text = await refused(client, "produce_record", topic="t", value="x")
            assert "MESSAGE_TOO_LARGE" in text
            state = await asked(client, "describe_control")
            assert [fault["injected"] for fault in state["faults"]] == [1]
            await asked(client, "remove_faults", rule=rule["rule"])

            clock = await asked(client, "set_clock", advance_ms=60_000)
            assert clock["ahead_ms"] >= 60_000
            await asked(client, "take_snapshot", name="before")
            trace = await asked(client, "begin_trace", api="Produce")
            await asked(client, "produce_record", topic="t", value="x")
            traced = await asked(client, "read_trace", trace=trace["trace"])
            assert [each["api"] for each in traced["requests"]] == ["Produce"]
            await asked(client, "end_trace", trace=trace["trace"])
            assert "there is no trace" in await refused(client, "read_trace", trace=99)
            await asked(client, "restore_snapshot", name="before")
            assert (await asked(client, "list_topics"))["topics"][0]["records"] == 0
            await asked(client, "trace_requests", seconds=0.1)
            assert (await asked(client, "describe_control"))["traces"] == []


async def test_passwords_and_sensitive_configs_are_in_no_answer(tmp_path: Path) -> None:
    port = free_port()
    settings = {
        "listeners": f"SASL_PLAINTEXT://127.0.0.1:{port}",
        "advertised.listeners": f"SASL_PLAINTEXT://127.0.0.1:{port}",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{LOGIN} username="admin" '
        f'password="{PASSWORD}" user_admin="{PASSWORD}";',
    }
    properties = tmp_path / "client.properties"
    login = (
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={LOGIN} username="admin" password="%s";\n'
    )
    properties.write_text(login % PASSWORD)
    broker = BrokerProcess(tmp_path / "broker", settings, port=port)
    broker.start()
    options = ("--command-config", str(properties))
    said: list[str] = []
    async with assistant(f"127.0.0.1:{port}", *options) as client:
        for tool, arguments in (
            ("describe_configs", {"kind": "broker", "name": "1", "with_defaults": True}),
            ("describe_configs", {"kind": "broker", "name": "1", "contains": "jaas"}),
            ("cluster_health", {}),
            ("check_cluster", {}),
        ):
            said.append(str(await asked(client, tool, **arguments)))
    assert "sasl.jaas.config" in said[1]
    properties.write_text(login % f"wrong-{PASSWORD}")
    async with assistant(f"127.0.0.1:{port}", *options) as client:
        said.append(await refused(client, "list_topics"))
    assert "--command-config" in said[-1]
    assert not any(PASSWORD in each for each in said)
    finish(broker)


async def test_unreachable_broker_is_an_error_that_names_the_option() -> None:
    async with assistant(f"127.0.0.1:{free_port()}") as client:
        text = await refused(client, "list_topics")
        assert "kwire mcp" in text
        assert "-b" in text
