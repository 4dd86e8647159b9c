"""The group scripts of tests/groups, run through the handlers, the runtime and a real log.

Only sockets are missing: requests and responses are encoded in their versions, sessions use the
event loop's clock, and every record is written to a file.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages import request_class, response_class
from kwire.conformance.group_script import GroupScript
from kwire.requests.context import Context
from kwire.requests.routes import bind
from tests.requests.handlers.node import Node

AnyMessage = Any
"""A request or response of any kind."""

SCRIPTS = Path(__file__).parents[2] / "groups" / "scripts"
MACHINE_ONLY = {"failures", "reload", "restart", "retention", "transactional"}
NAMES = sorted(path.stem for path in SCRIPTS.glob("*.txt") if path.stem not in MACHINE_ONLY)
SETTINGS = {
    "group_initial_rebalance_delay_ms": "group.initial.rebalance.delay.ms",
    "group_max_size": "group.max.size",
}


class HandlerTarget:
    """Sends requests to a node's handlers; each waits in a task of its own."""

    def __init__(self, node: Node, nursery: trio.Nursery) -> None:
        self._node = node
        self._nursery = nursery
        self._answered: list[tuple[str, AnyMessage]] = []

    def send(self, name: str, api: ApiKey, version: int, request: AnyMessage) -> None:
        received = request_class(api).decode(request.encode(version), version)
        context = Context("PLAINTEXT", "127.0.0.1", "test")
        context.api_key, context.api_version, context.client_id = api, version, name
        reply = bind(api, version).handle(self._node.broker, received, context)
        if isinstance(reply, Awaitable):
            self._nursery.start_soon(self._wait, name, api, version, reply)
        else:
            self._answer(name, api, version, reply)

    async def _wait(
        self, name: str, api: ApiKey, version: int, reply: Awaitable[AnyMessage]
    ) -> None:
        self._answer(name, api, version, await reply)

    def _answer(self, name: str, api: ApiKey, version: int, response: AnyMessage) -> None:
        encoded = response.encode(version)
        self._answered.append((name, response_class(api).decode(encoded, version)))

    def replies(self) -> list[tuple[str, AnyMessage]]:
        answered, self._answered = self._answered, []
        return answered

    def wait(self, time_ms: int) -> None:
        clock = trio.lowlevel.current_clock()
        assert isinstance(clock, trio.testing.MockClock)
        clock.jump(time_ms / 1000)


def blocks(name: str) -> Iterator[tuple[str, list[str]]]:
    """(line, expected) of a script, without what only a machine can be told."""
    found: list[tuple[str, list[str]]] = []
    for line in (SCRIPTS / f"{name}.txt").read_text().splitlines():
        if line.startswith("  "):
            found[-1][1].append(line[2:])
        elif line and not line.startswith("#"):
            found.append((line, []))
    return (block for block in found if block[0] != "log")


def settings_of(name: str) -> dict[str, str]:
    line = next(blocks(name))[0]
    pairs = line.split()[1:] if line.startswith("limits") else []
    chosen = {"group_initial_rebalance_delay_ms": "0"} | dict(p.split("=") for p in pairs)
    return {SETTINGS[key]: value for key, value in chosen.items()}


async def run_script(name: str, directory: Path) -> None:
    node = Node(directory, settings_of(name))
    async with trio.open_nursery() as nursery:
        node.broker.coordinators.groups.start(nursery)
        node.broker.coordinators.groups.partitions = 2
        nursery.start_soon(node.broker.node.timers.run)
        node.create("__consumer_offsets", 2, cleanup_policy="compact")
        node.create("t", 3)
        node.create("u", 2)
        script = GroupScript(HandlerTarget(node, nursery), "G")
        for line, expected in blocks(name):
            if line.startswith("limits"):
                continue
            # Time passes in steps: a timer may set the next one.
            for step in steps(line):
                script.send(step)
                await trio.testing.wait_all_tasks_blocked()
            assert sorted(map(str.rstrip, script.replies())) == sorted(expected), line
        nursery.cancel_scope.cancel()
    node.close()


def steps(line: str) -> list[str]:
    command, *words = line.split()
    return ["wait 100"] * (int(words[0]) // 100) if command == "wait" else [line]


@pytest.mark.parametrize("name", NAMES)
def test_broker_answers_the_group_script(name: str, tmp_path: Path) -> None:
    trio.run(run_script, name, tmp_path, clock=trio.testing.MockClock())
