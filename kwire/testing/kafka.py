"""A broker that serves a whole test run and becomes empty again on request.

with Kafka() as kafka:
    orders = kafka.create_topic("orders", partitions=3)
    orders.seed([{"fruit": "apples"}, Record("pears", key="k")])
    ...                                       # the code under test connects to kafka.bootstrap
    kafka.wait_until_consumed("billing")
    kafka.topic("bills").assert_holds([{"total": 3}])
    kafka.reset()                             # an unused broker at the same port

The broker runs in a separate process, on a free port, and keeps its data in a temporary folder.
The broker ends and the folder is removed when the process that started it ends, even if that
process is killed.  `async with` works on asyncio and trio.
`await kafka.off_loop(kafka.wait_until_consumed, "billing")` waits without blocking the event loop.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, ParamSpec, Self, TypeVar

from kwire.testing.clock import Clock
from kwire.testing.control import ControlClient, ControlError, given_fields
from kwire.testing.faults import Faults
from kwire.testing.hooks.snapshots.kept import SnapshotError
from kwire.testing.hosting.lifetime import Startable
from kwire.testing.hosting.ports import free_port
from kwire.testing.hosting.process import BrokerStartError, Forker
from kwire.testing.snapshots import Snapshot, as_snapshot
from kwire.testing.topics import LOOK_AGAIN_S, TIMEOUT_S, Topic, connected
from kwire.testing.traces import BrokerTrace, Trace
from kwire.testing.values import Path as AnyPath

if TYPE_CHECKING:
    from kwire.testing.replaying import Outcome

P = ParamSpec("P")
R = TypeVar("R")

HOST: Final = "127.0.0.1"
OF_TESTS: Final = {"group.initial.rebalance.delay.ms": "1"}
"""Settings of every test broker.  A delay of 0 would let a group's first member join alone even
while the broker's clock is held.  With 1 ms, a replay joins the same members together as the
recorded run did."""
SHOWN_RECORDS_MAX: Final = 20
"""Records of each topic in the report on a failed test."""


class Contents(ABC):
    """The methods by which a test fills and reads a broker or a cluster."""

    @property
    @abstractmethod
    def bootstrap(self) -> str:
        """The value for a client's `bootstrap.servers`."""

    def trace(
        self,
        *,
        api: str | Sequence[str] | None = None,
        topic: str | None = None,
        partition: int | None = None,
        client: str | None = None,
        group: str | None = None,
        transactional_id: str | None = None,
        keep_bytes: bool = False,
    ) -> Trace:
        """Record requests and their responses; use the result in a `with` block.

        Each argument narrows which requests are recorded; without any, all requests are.  With
        `keep_bytes`, the file that `Trace.save` writes can be replayed (kwire.testing.replaying).
        Requests of this object's own methods are recorded only if `client` names their client id.
        Raises ControlError.
        """
        apis = list(api) if isinstance(api, Sequence) and not isinstance(api, str) else api
        request_filter = given_fields(
            api=apis,
            topic=topic,
            partition=partition,
            client=client,
            group=group,
            transactional_id=transactional_id,
            bytes=keep_bytes or None,
        )
        return self._start_trace(request_filter)

    @abstractmethod
    def _start_trace(self, request_filter: Mapping[str, Any]) -> Trace:
        """Start recording the requests that match.  Raises ControlError."""

    def topic(self, name: str) -> Topic:
        """The topic of that name, which need not exist."""
        return Topic(self.bootstrap, name)

    def create_topic(
        self, name: str, *, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> Topic:
        """Create a topic.  Raises ClientError."""
        from kwire.client.topics import create_topic

        with connected(self.bootstrap) as cluster:
            create_topic(cluster, name, partitions=partitions, configs=configs)
        return self.topic(name)

    def apply(self, declared: AnyPath | Mapping[str, object], *, prune: bool = False) -> list[str]:
        """Create what a declaration contains: topics, records, users, ACLs and all else that
        `kwire apply` knows.

        `declared` is a file of `kwire apply`, or a dict with the same content.  `prune` deletes
        what is not declared.  Returns the changes as the lines that `kwire apply` prints.
        Raises DeclarationError, NotApplied, ClientError.
        """
        from kwire.testing.declared import apply

        return apply(self.bootstrap, declared, prune=prune)

    def topics(self) -> list[str]:
        """The names of all topics, without Kafka's internal ones.  Raises ClientError."""
        from kwire.client.topics import list_topics

        with connected(self.bootstrap) as cluster:
            return [str(topic.name) for topic in list_topics(cluster)]

    def lag(self, group_id: str) -> dict[str, int]:
        """How many records the group has not committed, by topic.

        Only topics of which the group has committed something are included.  Raises ClientError.
        """
        from kwire.testing.groups import lag_of

        with connected(self.bootstrap) as cluster:
            return lag_of(cluster, group_id)

    def wait_until_consumed(
        self, group_id: str, *topics: str | Topic, timeout_s: float = TIMEOUT_S
    ) -> None:
        """Wait until the group has committed all records of these topics.

        Without `topics`, wait until the group has committed something, and all records of the
        topics that it has committed something of.  Raises TimeoutError, ClientError.
        """
        topic_names = {str(topic) for topic in topics}
        deadline = time.monotonic() + timeout_s
        while True:
            lag = self.lag(group_id)
            has_commits = lag.keys() >= topic_names if topic_names else bool(lag)
            if has_commits and not any(lag[topic] for topic in topic_names or lag):
                return
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"after {timeout_s:g} s group {group_id} {_lag_in_words(lag, topic_names)}"
                )
            time.sleep(LOOK_AGAIN_S)

    def report(self) -> str:
        """The topics and their last records as text; pytest shows it for a failed test."""
        from kwire.testing.report import contents

        with connected(self.bootstrap, timeout_s=5.0) as cluster:
            return contents(cluster, SHOWN_RECORDS_MAX)


class Kafka(Contents, Startable):
    """A broker for tests, started and stopped by a `with` block.

    `settings` are broker settings by Kafka's names.  `port` is the port of the broker; 0 takes a
    free one.  `declared` is what a new or reset broker contains, in the form that `apply` takes.
    With `snapshot`, a new or reset broker contains what the snapshot holds instead.
    `max_versions` makes the broker look older to its clients: "2.8" limits every API to the
    versions of Apache Kafka 2.8, {"Produce": 7} limits one API.
    """

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        port: int = 0,
        declared: AnyPath | Mapping[str, object] | None = None,
        max_versions: str | Mapping[str, int] | None = None,
        snapshot: Snapshot | AnyPath | None = None,
    ) -> None:
        """Prepares a broker; `start` starts it.  `declared` is a declaration to apply to each new
        broker, `max_versions` limits the API versions, and `snapshot` is what a new broker
        contains."""
        self.declared = declared
        self.snapshot_taken = None if snapshot is None else as_snapshot(snapshot)
        """The contents of a new or reset broker; None for an empty one."""
        self.max_versions = max_versions or {}
        self.settings = dict(settings or {})
        self.port = port or free_port()
        self.control_port = free_port() if find_spec("h11") is not None else None
        """Port of the broker's HTTP control (docs/testing.md); None without the extra `testing`."""
        self._numbers = count()
        """Number of the next broker; each broker has a data folder of its own."""
        self._number = next(self._numbers)
        self._prepared: int | None = None
        """Number of the broker that was forked in advance for the next `reset`."""
        self._ahead_ms = 0
        self._forker: Forker | None = None

    @property
    def bootstrap(self) -> str:
        """The value for a client's `bootstrap.servers`."""
        return f"{HOST}:{self.port}"

    # -- start and stop

    def start(self) -> None:
        """Start the broker and return once it serves.

        After `shut_down` or `kill` the broker starts with the data that it had.
        Raises BrokerStartError, SnapshotError.
        """
        if self._forker is not None:
            self._start_broker()
            return
        self._spawn()
        try:
            self._start_new_broker(self.snapshot_taken)
        except BaseException:
            self.stop()
            raise

    def _spawn(self) -> None:
        """Start the process that forks brokers (kwire.cli.hosting.renewing)."""
        self._prepared = None
        listener = f"PLAINTEXT://{HOST}:{self.port}"
        listeners = {"listeners": listener, "advertised.listeners": listener}
        settings = {**listeners, **OF_TESTS, **self.settings}
        limits = self.max_versions
        api_limits = () if isinstance(limits, str) else limits.items()
        options = [f"--max-version={limits}"] if isinstance(limits, str) else []
        options += [f"--max-version={api}={version}" for api, version in api_limits]
        if self.control_port is not None:
            options.append(f"--control={self.control_port}")
        self._forker = Forker([*options, *(f"--set={name}={settings[name]}" for name in settings)])

    def stop(self) -> None:
        """End the broker and its forks, and remove their data."""
        forker, self._forker = self._forker, None
        if forker is not None:
            forker.close()

    def reset(self) -> None:
        """Replace the broker with an unused one at the same port: no topics, groups or users.

        The old broker is killed and its data removed, so its clients lose their connections.
        The new broker has the contents that `declared` or `snapshot` of the constructor asked for.
        Raises BrokerStartError.
        """
        self._replace_broker(self.snapshot_taken)

    def shut_down(self) -> int:
        """Shut the broker down cleanly (SIGTERM), until `start`; returns its exit status."""
        return self._running_forker.ended("stop", self.port)

    def kill(self) -> int:
        """Kill the broker (SIGKILL), until `start`; returns its exit status.

        The status is -9, unless the broker had ended before.
        """
        return self._running_forker.ended("kill", self.port)

    @property
    def running(self) -> bool:
        """Whether the broker's process runs."""
        return self._forker is not None and self._forker.pid(self.port) is not None

    @property
    def pid(self) -> int:
        """Id of the broker's process.  Raises BrokerStartError if it does not run."""
        forker = self._running_forker
        pid = forker.pid(self.port)
        if pid is None:
            status = forker.status
            raise BrokerStartError(f"the broker has ended with status {status}:\n{self.log}")
        return pid

    @property
    def data_dir(self) -> Path:
        """The folder with the broker's data; each `reset` uses another one."""
        return self._folder(self._number)

    @property
    def log(self) -> str:
        """Everything that the broker, its forks and its predecessors logged since `start`."""
        return self.log_since(0)

    @property
    def log_size_bytes(self) -> int:
        """The length of the log in bytes, for `log_since`."""
        return 0 if self._forker is None else self._forker.log_size_bytes

    def log_since(self, position: int) -> str:
        """The log from that byte position on."""
        return "" if self._forker is None else self._forker.log_since(position)

    @property
    def _running_forker(self) -> Forker:
        assert self._forker is not None, "The broker was not started."
        return self._forker

    def _folder(self, number: int) -> Path:
        return self._running_forker.path / f"data-{self.port}-{number}"

    def _replace_broker(self, snapshot: Snapshot | None) -> None:
        """Starts a new broker with the contents of `snapshot` (None: empty) at the same port, and
        removes the old data.  An empty successor is forked in advance, so that the next `reset` is
        fast."""
        old_data_dir = self.data_dir
        self._number = self._next_number(snapshot)
        self._start_new_broker(snapshot)
        self._running_forker.remove(old_data_dir)
        if snapshot is None:
            self._prepare()

    def _next_number(self, snapshot: Snapshot | None) -> int:
        """Number of the next broker: the prepared one, unless it starts with a snapshot."""
        prepared = self._prepared
        if snapshot is not None or prepared is None:
            return next(self._numbers)
        self._prepared = None
        return prepared

    def _prepare(self) -> None:
        """Fork the broker for the next `reset` in advance: one reset is a sign of more."""
        self._prepared = next(self._numbers)
        folder = self._folder(self._prepared)
        self._running_forker.prepare(self.port, self.control_port or 0, folder)

    def _start_new_broker(self, snapshot: Snapshot | None) -> None:
        """Start a broker in an empty folder, and fill it from the snapshot or the declaration."""
        if snapshot is None:
            self._ahead_ms = 0
            self._start_broker()
            self._declare()
            return
        self._ahead_ms = snapshot.lay_out(self.data_dir)
        self._start_broker()

    def _start_broker(self) -> None:
        forker = self._running_forker
        forker.start(self.port, self.control_port or 0, self._ahead_ms, self.data_dir)

    # -- snapshots

    def snapshot(self, path: AnyPath | None = None) -> Snapshot:
        """Save all that the broker holds now, for `restore`, `fork` and `Kafka(snapshot=...)`.

        The snapshot is kept in the new folder `path`; without `path`, in a temporary folder that is
        removed with the returned object.  A snapshot on the file system of the broker's data (that
        of temporary folders) shares full segments with the broker, which costs no disk space.
        Raises ControlError.
        """
        return Snapshot.take(self.control, None if path is None else Path(path))

    def restore(self, snapshot: Snapshot | AnyPath) -> None:
        """Replace the broker with one that holds what the snapshot holds; the old one is killed.

        The contents that a later `reset` gives do not change.
        Raises BrokerStartError, SnapshotError.
        """
        self._replace_broker(as_snapshot(snapshot))

    def fork(self, snapshot: Snapshot | AnyPath | None = None) -> Fork:
        """A second broker that begins with what this broker holds now, or with the snapshot.

        The fork starts when its `with` block begins.  It ends with that block, or with this broker.
        Later writes to one of the two brokers do not reach the other.
        Raises ControlError, SnapshotError.
        """
        return Fork(self, self.snapshot() if snapshot is None else as_snapshot(snapshot))

    def _declare(self) -> None:
        if self.declared is not None:
            self.apply(self.declared)

    def reload_coordinator(
        self, *, group: str | None = None, transactional_id: str | None = None
    ) -> None:
        """Make the coordinator of a group or a transactional id resign and load its records again.

        It answers COORDINATOR_LOAD_IN_PROGRESS until it has loaded them.  Raises ControlError.
        """
        fields = given_fields(group=group, transactional_id=transactional_id)
        self.control.post("/coordinators", fields)

    # -- async with, on asyncio and on trio

    async def __aenter__(self) -> Self:
        await self.off_loop(self.start)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stops the broker at the end of the `async with` block, also after an exception."""
        self.stop()

    async def off_loop(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run `function` in a thread, so that the event loop continues; returns its result."""
        from kwire.testing.hosting.threads import in_thread

        return await in_thread(lambda: function(*args, **kwargs))

    @property
    def control(self) -> ControlClient:
        """Client of the broker's HTTP control.  Raises ControlError if h11 is not installed."""
        if self.control_port is None:
            from kwire.client.extras import how_to_install

            raise ControlError(
                f"The control needs h11, which is missing: {how_to_install('testing')}"
            )
        return ControlClient(f"http://{HOST}:{self.control_port}")

    @property
    def faults(self) -> Faults:
        """The faults that the broker injects; a test adds them.  Raises ControlError."""
        return Faults(self.control)

    @property
    def clock(self) -> Clock:
        """The broker's clock, which a test can hold and advance.  Raises ControlError."""
        return Clock(self.control)

    def _start_trace(self, request_filter: Mapping[str, Any]) -> Trace:
        return BrokerTrace(self.control, request_filter)

    def replay(self, file: AnyPath, *, pace: str = "answers", patience_s: float = 0.0) -> Outcome:
        """Send the requests of a trace that `Trace.save` wrote, and compare the responses.

        The broker's clock follows the times of the trace.  See kwire.testing.replaying.
        Raises DamagedTrace, NoCounterpart, OSError, ClientError, ControlError.
        """
        from kwire.testing.replaying import replay

        clocks = None if self.control_port is None else lambda _: self.clock
        return replay(file, self.bootstrap, pace=pace, patience_s=patience_s, clocks=clocks)


def _lag_in_words(lag: Mapping[str, int], topic_names: set[str]) -> str:
    """Return what a group has not committed, as the end of an error message."""
    behind = [f"{count} records of {topic}" for topic, count in sorted(lag.items()) if count]
    unread = [f"all of {topic}" for topic in sorted(topic_names - lag.keys())]
    if not behind and not unread:
        return "has committed nothing"
    return f"has not committed {' and '.join(behind + unread)}"


class Fork(Kafka):
    """A broker that `Kafka.fork` makes: forked by the same process as the original broker.

    Without a snapshot, it begins as a reset original does.
    """

    def __init__(self, of: Kafka, snapshot: Snapshot | None) -> None:
        """Prepares a fork of the broker `of` with the same settings.  Raises SnapshotError if the
        settings name listeners, since both brokers would listen at the same port."""
        if of.settings.keys() & {"listeners", "advertised.listeners"}:
            raise SnapshotError(
                "A broker whose settings contain listeners cannot be forked. "
                "Start a second one with Kafka(snapshot=...)."
            )
        super().__init__(
            of.settings,
            declared=of.declared,
            max_versions=of.max_versions,
            snapshot=snapshot,
        )
        self._of = of

    def _spawn(self) -> None:
        """Use the process that forked the original broker."""
        self._prepared = None
        self._forker = self._of._running_forker

    def stop(self) -> None:
        """End the fork and remove its data.  Its log lines stay in the log of the original."""
        forker = self._forker
        if forker is not None and not forker.is_closed:
            forker.ended("forget", self.port)
            forker.remove(self.data_dir)
        self._forker = None
