"""A broker for a whole test run, that is fresh again whenever a test wants it so.

with Kafka() as kafka:
    orders = kafka.create_topic("orders", partitions=3)
    orders.seed([{"fruit": "apples"}, Record("pears", key="k")])
    ...                                       # what is tested, at kafka.bootstrap
    kafka.wait_until_consumed("billing")
    kafka.topic("bills").assert_holds([{"total": 3}])
    kafka.reset()                             # a broker that nobody has used, at the same port

It is a process of its own, on a free port, with its data in a folder of its own; both end with the
process that started it, whatever becomes of that one.  `async with` works on asyncio and trio, and
`await kafka.off_loop(kafka.wait_until_consumed, "billing")` waits without holding up the loop.
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
from kwire.testing.control import ControlClient, ControlError, said
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
"""With 0 a group's first member would join alone also where time stands still: a replay has those
join together that did."""
SHOWN_RECORDS_MAX: Final = 20
"""Of each topic, in the report on a failed test."""


class Contents(ABC):
    """What is in a broker or a cluster, as the helpers of a test ask for it."""

    @property
    @abstractmethod
    def bootstrap(self) -> str:
        """What a client takes as its bootstrap servers."""

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
        """See these requests and their answers, all if nothing is said; use it in a `with` block.

        With `keep_bytes` what `save` has written can be sent again (kwire.testing.replaying).
        Those of this object's own helpers are seen only where `client` names them.
        Raises ControlError.
        """
        apis = list(api) if isinstance(api, Sequence) and not isinstance(api, str) else api
        which = said(
            api=apis,
            topic=topic,
            partition=partition,
            client=client,
            group=group,
            transactional_id=transactional_id,
            bytes=keep_bytes or None,
        )
        return self._traced(which)

    @abstractmethod
    def _traced(self, which: Mapping[str, Any]) -> Trace:
        """A trace of these requests.  Raises ControlError."""

    def topic(self, name: str) -> Topic:
        """A topic by its name, whether there is one or not."""
        return Topic(self.bootstrap, name)

    def create_topic(
        self, name: str, *, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> Topic:
        """A new topic.  Raises ClientError."""
        from kwire.client.topics import create_topic

        with connected(self.bootstrap) as cluster:
            create_topic(cluster, name, partitions=partitions, configs=configs)
        return self.topic(name)

    def apply(self, declared: AnyPath | Mapping[str, object], *, prune: bool = False) -> list[str]:
        """Have topics, records, users, rules and all else that a file of `kwire apply` declares,
        or a dict that says the same; what was changed, as that command shows it.

        `prune` removes what is not declared.  Raises DeclarationError, NotApplied, ClientError.
        """
        from kwire.testing.declared import apply

        return apply(self.bootstrap, declared, prune=prune)

    def topics(self) -> list[str]:
        """The names of all topics but Kafka's own.  Raises ClientError."""
        from kwire.client.topics import list_topics

        with connected(self.bootstrap) as cluster:
            return [str(topic.name) for topic in list_topics(cluster)]

    def lag(self, group_id: str) -> dict[str, int]:
        """Topic -> how many records the group has not committed yet, of topics it has read."""
        from kwire.testing.groups import lag_of

        with connected(self.bootstrap) as cluster:
            return lag_of(cluster, group_id)

    def wait_until_consumed(
        self, group_id: str, *topics: str | Topic, timeout_s: float = TIMEOUT_S
    ) -> None:
        """Until the group has committed all there is of these topics, else of those it has read.

        Without `topics` it must have committed something.  Raises TimeoutError, ClientError.
        """
        wanted = {str(topic) for topic in topics}
        deadline = time.monotonic() + timeout_s
        while True:
            lag = self.lag(group_id)
            known = lag.keys() >= wanted if wanted else bool(lag)
            if known and not any(lag[topic] for topic in wanted or lag):
                return
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"after {timeout_s:g} s group {group_id} {_in_words(lag, wanted)}"
                )
            time.sleep(LOOK_AGAIN_S)

    def report(self) -> str:
        """What the topics hold, for somebody who wonders why a test has failed."""
        from kwire.testing.report import contents

        with connected(self.bootstrap, timeout_s=5.0) as cluster:
            return contents(cluster, SHOWN_RECORDS_MAX)


class Kafka(Contents, Startable):
    """See the module.  `settings` are broker settings by Kafka's names; `port` is a free one.

    `declared` is what each fresh broker has from the start, as `apply` takes it; with `snapshot`
    it begins with what that holds instead.  With `max_versions`, as "2.8" or {"Produce": 7}, it
    looks like an older broker to its clients: of that release, or in these APIs alone.
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
        self.declared = declared
        self.snapshot_taken = None if snapshot is None else as_snapshot(snapshot)
        """What each fresh broker begins with, instead of with nothing."""
        self.max_versions = max_versions or {}
        self.settings = dict(settings or {})
        self.port = port or free_port()
        self.control_port = free_port() if find_spec("h11") is not None else None
        """Where it is asked over HTTP (docs/testing.md); None where the extra is not installed."""
        self._numbers = count()
        """Of the brokers, each with a folder of its own."""
        self._number = next(self._numbers)
        self._prepared: int | None = None
        """Of the one that the next `reset` is to find ready."""
        self._ahead_ms = 0
        self._forker: Forker | None = None

    @property
    def bootstrap(self) -> str:
        """What a client takes as its bootstrap servers."""
        return f"{HOST}:{self.port}"

    # -- its life

    def start(self) -> None:
        """Return once it serves.  Where it was stopped or killed, it goes on with its data.

        Raises BrokerStartError, SnapshotError.
        """
        if self._forker is not None:
            self._start_broker()
            return
        self._spawn()
        try:
            self._begin(self.snapshot_taken)
        except BaseException:
            self.stop()
            raise

    def _spawn(self) -> None:
        """The process that forks brokers: see kwire.cli.hosting.renewing."""
        self._prepared = None
        listener = f"PLAINTEXT://{HOST}:{self.port}"
        at = {"listeners": listener, "advertised.listeners": listener}
        settings = {**at, **OF_TESTS, **self.settings}
        wanted = self.max_versions
        of_apis = () if isinstance(wanted, str) else wanted.items()
        options = [f"--max-version={wanted}"] if isinstance(wanted, str) else []
        options += [f"--max-version={api}={number}" for api, number in of_apis]
        if self.control_port is not None:
            options.append(f"--control={self.control_port}")
        self._forker = Forker([*options, *(f"--set={name}={settings[name]}" for name in settings)])

    def stop(self) -> None:
        """End it, and remove its data; its forks end with it."""
        forker, self._forker = self._forker, None
        if forker is not None:
            forker.close()

    def reset(self) -> None:
        """Have a broker that nobody has used: no topics, groups, settings, users, nor clients.

        The one before is killed, and its data removed.  Where it began with a snapshot, the next
        one does, too.  Raises BrokerStartError.
        """
        self._renew(self.snapshot_taken)

    def shut_down(self) -> int:
        """Have the broker end cleanly (SIGTERM), until `start`; its exit status."""
        return self._started.ended("stop", self.port)

    def kill(self) -> int:
        """End the broker at once (SIGKILL), until `start`; its status, -9 unless it was dead."""
        return self._started.ended("kill", self.port)

    @property
    def running(self) -> bool:
        """Whether the broker is there; it may have died by itself."""
        return self._forker is not None and self._forker.pid(self.port) is not None

    @property
    def pid(self) -> int:
        """The broker's process.  Raises BrokerStartError where it does not run."""
        forker = self._started
        pid = forker.pid(self.port)
        if pid is None:
            status = forker.status
            raise BrokerStartError(f"the broker has ended with status {status}:\n{self.log}")
        return pid

    @property
    def data_dir(self) -> Path:
        """Where the broker keeps its data now: another folder after each `reset`."""
        return self._folder(self._number)

    @property
    def log(self) -> str:
        """Everything that was logged since `start`, by all brokers, forks too."""
        return self.log_since(0)

    @property
    def log_size_bytes(self) -> int:
        """How long the log is by now, for `log_since`."""
        return 0 if self._forker is None else self._forker.log_size_bytes

    def log_since(self, position: int) -> str:
        """What was logged after the log was that long."""
        return "" if self._forker is None else self._forker.log_since(position)

    @property
    def _started(self) -> Forker:
        assert self._forker is not None, "it was not started"
        return self._forker

    def _folder(self, number: int) -> Path:
        return self._started.path / f"data-{self.port}-{number}"

    def _renew(self, snapshot: Snapshot | None) -> None:
        before = self.data_dir
        self._number = self._next_number(snapshot)
        self._begin(snapshot)
        self._started.remove(before)
        if snapshot is None:
            self._prepare()

    def _next_number(self, snapshot: Snapshot | None) -> int:
        """That of the broker that is prepared, unless it is to begin with a snapshot."""
        prepared = self._prepared
        if snapshot is not None or prepared is None:
            return next(self._numbers)
        self._prepared = None
        return prepared

    def _prepare(self) -> None:
        """Who was reset once will be again: the next broker gets ready meanwhile."""
        self._prepared = next(self._numbers)
        folder = self._folder(self._prepared)
        self._started.prepare(self.port, self.control_port or 0, folder)

    def _begin(self, snapshot: Snapshot | None) -> None:
        """The first start on a new folder: with a snapshot, or with what is declared."""
        if snapshot is None:
            self._ahead_ms = 0
            self._start_broker()
            self._declare()
            return
        self._ahead_ms = snapshot.lay_out(self.data_dir)
        self._start_broker()

    def _start_broker(self) -> None:
        forker = self._started
        forker.start(self.port, self.control_port or 0, self._ahead_ms, self.data_dir)

    # -- snapshots

    def snapshot(self, path: AnyPath | None = None) -> Snapshot:
        """What the broker holds now, all of it: for `restore`, `fork` and `Kafka(snapshot=...)`.

        It is kept in the folder `path`, which is not there yet, else in one that goes with this
        process.  On the data's file system (a temporary folder's) it takes no room of its own for
        what is not written to any more.  Raises ControlError.
        """
        return Snapshot.take(self.control, None if path is None else Path(path))

    def restore(self, snapshot: Snapshot | AnyPath) -> None:
        """Have a broker that holds what the snapshot does; the one before is killed.

        A `reset` is what it was before.  Raises BrokerStartError, SnapshotError.
        """
        self._renew(as_snapshot(snapshot))

    def fork(self, snapshot: Snapshot | AnyPath | None = None) -> Fork:
        """A second broker that holds what this one does now, or what the snapshot does.

        It starts when a `with` block begins, and ends with that, or with this one.  Neither sees
        what becomes of the other.  Raises ControlError, SnapshotError.
        """
        return Fork(self, self.snapshot() if snapshot is None else as_snapshot(snapshot))

    def _declare(self) -> None:
        if self.declared is not None:
            self.apply(self.declared)

    def reload_coordinator(
        self, *, group: str | None = None, transactional_id: str | None = None
    ) -> None:
        """Have the coordinator of a group, or of a transactional id, let go of it and load it anew:
        it answers COORDINATOR_LOAD_IN_PROGRESS meanwhile.  Raises ControlError."""
        self.control.post("/coordinators", said(group=group, transactional_id=transactional_id))

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
        self.stop()

    async def off_loop(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """What `function` returns; it runs in a thread, and the loop goes on meanwhile."""
        from kwire.testing.hosting.threads import in_thread

        return await in_thread(lambda: function(*args, **kwargs))

    @property
    def control(self) -> ControlClient:
        """What the broker is asked by, beside Kafka's protocol.  Raises ControlError."""
        if self.control_port is None:
            from kwire.client.extras import how_to_install

            raise ControlError(f"faults take h11, which is not there: {how_to_install('testing')}")
        return ControlClient(f"http://{HOST}:{self.control_port}")

    @property
    def faults(self) -> Faults:
        """What befalls requests: none do, before a test adds some.  Raises ControlError."""
        return Faults(self.control)

    @property
    def clock(self) -> Clock:
        """The broker's time, which a test may have pass.  Raises ControlError."""
        return Clock(self.control)

    def _traced(self, which: Mapping[str, Any]) -> Trace:
        return BrokerTrace(self.control, which)

    def replay(self, file: AnyPath, *, pace: str = "answers", patience_s: float = 0.0) -> Outcome:
        """Send the requests again that `Trace.save` has written, and compare the answers.

        The broker's clock goes as in the trace.  See kwire.testing.replaying.
        Raises DamagedTrace, NoCounterpart, OSError, ClientError, ControlError.
        """
        from kwire.testing.replaying import replay

        clocks = None if self.control_port is None else lambda _: self.clock
        return replay(file, self.bootstrap, pace=pace, patience_s=patience_s, clocks=clocks)


def _in_words(lag: Mapping[str, int], wanted: set[str]) -> str:
    behind = [f"{count} records of {topic}" for topic, count in sorted(lag.items()) if count]
    unread = [f"all of {topic}" for topic in sorted(wanted - lag.keys())]
    if not behind and not unread:
        return "has committed nothing"
    return f"has not committed {' and '.join(behind + unread)}"


class Fork(Kafka):
    """What `Kafka.fork` gives.  Without a snapshot it begins with nothing, as that one did."""

    def __init__(self, of: Kafka, snapshot: Snapshot | None) -> None:
        if of.settings.keys() & {"listeners", "advertised.listeners"}:
            raise SnapshotError(
                "a broker with listeners of its own cannot be forked: Kafka(snapshot=...) starts "
                "another one"
            )
        super().__init__(
            of.settings,
            declared=of.declared,
            max_versions=of.max_versions,
            snapshot=snapshot,
        )
        self._of = of

    def _spawn(self) -> None:
        """Nothing to spawn: the process is there."""
        self._prepared = None
        self._forker = self._of._started

    def stop(self) -> None:
        """End it, and remove its data.  Its log stays with that of the other."""
        forker = self._forker
        if forker is not None and not forker.is_closed:
            forker.ended("forget", self.port)
            forker.remove(self.data_dir)
        self._forker = None
