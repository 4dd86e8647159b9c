"""A broker with metrics on the test's own loop, and its meters and endpoint."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trio

from kwire.broker.broker import Broker
from kwire.server.metrics import service
from kwire.server.metrics.meters import Meters
from tests.inside import PATIENCE_S, running_broker


class Measured(NamedTuple):
    """An open broker with metrics."""

    broker: Broker
    metrics: service.Metrics

    @property
    def meters(self) -> Meters:
        """The meters, with everything that was counted until now."""
        self.metrics.meters.fold()
        return self.metrics.meters

    @property
    def port(self) -> int:
        """The port of the endpoint."""
        port = self.broker.config.metrics.metrics_port
        assert port
        return port

    async def get(self, path: str, headers: Mapping[str, str] | None = None) -> tuple[int, str]:
        """The status and the body of the answer to GET."""
        lines = {"Host": "localhost", "Connection": "close", **(headers or {})}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        stream = await trio.open_tcp_stream("127.0.0.1", self.port)
        async with stream:
            await stream.send_all(f"GET {path} HTTP/1.1\r\n{head}\r\n".encode())
            got = b""
            with trio.fail_after(PATIENCE_S):
                while data := await stream.receive_some():
                    got += data
        start, _, body = got.partition(b"\r\n\r\n")
        return int(start.split()[1]), body.decode()

    async def json(self, path: str) -> tuple[int, Any]:
        status, body = await self.get(path)
        return status, json.loads(body)


def kept_metrics(monkeypatch: pytest.MonkeyPatch) -> list[service.Metrics]:
    """A list to which the metrics of each broker are added that the test starts."""
    made: list[service.Metrics] = []

    class Kept(service.Metrics):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    monkeypatch.setattr(service, "Metrics", Kept)
    return made


@asynccontextmanager
async def measured_broker(
    directory: Path, monkeypatch: pytest.MonkeyPatch, settings: Mapping[str, str] | None = None
) -> AsyncIterator[Measured]:
    """A broker with metrics at a free port."""
    made = kept_metrics(monkeypatch)
    async with running_broker(directory, {"metrics.port": "0", **(settings or {})}) as broker:
        yield Measured(broker, made[-1])
