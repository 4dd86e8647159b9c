"""A cluster of kwire brokers beside KRaft controllers of Apache Kafka, for tests.

`kwire.testing.controllers` starts the controllers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from kwire.testing.cluster import BrokerProcesses, known_members, replicated, settings_of_one
from kwire.testing.controllers import LISTENER
from kwire.testing.hosting.host import HERE, Host
from kwire.testing.hosting.ports import free_port
from kwire.testing.hosting.process import BrokerProcess

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class KraftClusterProcess(BrokerProcesses):
    """A cluster of `count` brokers with the ids from 1 on.

    `controllers` are the addresses of the controllers, for controller.quorum.bootstrap.servers.
    `lifelines` are those of the controllers, if this process started them: when it is killed, the
    controllers run until the brokers have left the cluster.  `settings`, `racks`, `ports` and
    `hosts` are as in `ClusterProcess`.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        controllers: str,
        count: int = 3,
        settings: Mapping[str, str] | None = None,
        *,
        racks: Sequence[str] = (),
        ports: Sequence[int] = (),
        hosts: Sequence[Host] = (),
        lifelines: Callable[[], Sequence[int]] = tuple,
    ) -> None:
        """Prepares the brokers; `start` starts them."""
        super().__init__({})
        shared = {
            **replicated(count),
            "process.roles": "broker",
            "controller.quorum.bootstrap.servers": controllers,
            "controller.listener.names": LISTENER,
            "listener.security.protocol.map": ",".join(
                [f"{LISTENER}:PLAINTEXT", *(f"{each}:{each}" for each in PROTOCOLS)]
            ),
        }
        for number in range(count):
            own = {"node.id": str(number + 1)}
            if racks:
                own["broker.rack"] = racks[number]
            self.brokers[number + 1] = BrokerProcess(
                Path(directory, f"broker-{number + 1}"),
                {**shared, **own, **settings_of_one(settings or {}, number)},
                port=ports[number] if ports else free_port(),
                host=hosts[number] if hosts else HERE,
                lifelines=lifelines,
            )

    def wait_until_members(self, ids: Iterable[int] | None = None) -> None:
        """Wait until these brokers report exactly each other, for which they must be unfenced.

        Without `ids`, wait for all brokers that run.  Raises BrokerStartError after a timeout.
        """
        self._wait_until_agreed(ids, known_members)
