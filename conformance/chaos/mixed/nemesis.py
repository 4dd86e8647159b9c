"""Injects the faults of a plan into a mixed cluster, several at a time, and ends them all."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from kwire.codecs.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kwire.codecs.messages.elect_leaders import ElectLeadersRequest
from kwire.codecs.messages.metadata import MetadataRequest
from kwire.conformance.chaos.cluster_link import ClusterLink
from kwire.conformance.chaos.history import NEMESIS, Recorder
from kwire.conformance.chaos.mixed.plan import MixedFault, MixedFaultKind
from kwire.conformance.chaos.schedule import FaultSchedule, Undo
from kwire.conformance.chaos.wire import Refused
from kwire.conformance.kraft_cluster import APACHE, KWIRE, AnyBroker, KRaftCluster
from kwire.conformance.wire.peer import Address

REQUEST_TIMEOUT_MS = 10_000
ATTEMPTS, RETRY_S = 100, 0.5
STOP_S = 20.0
STOPPED = frozenset({0, -signal.SIGTERM, -signal.SIGKILL})
"""Exit statuses after SIGTERM: in order, before the broker has begun to serve, killed."""


class MixedNemesis(FaultSchedule[MixedFault]):
    """Injects faults; after `heal` all nodes run, and each partition has all its replicas."""

    def __init__(
        self, cluster: KRaftCluster, addresses: Sequence[Address], recorder: Recorder
    ) -> None:
        super().__init__(recorder)
        self._cluster = cluster
        self._addresses = addresses
        self._shrunk = False

    def heal(self) -> None:
        """End all faults at once, and restart nodes that ended by themselves, which is recorded.

        Raises ApacheKafkaError, BrokerStartError, Refused.
        """
        self.end_all()
        nodes = {**self._cluster.controllers, **self._cluster.brokers}
        for number in nodes:
            self._note_end(number)
            self._spawn(number)
        for number in nodes:
            self._node(number).wait_until_up()
        self._cluster.wait_until_members()
        if self._shrunk:
            self._reassign([*self._cluster.brokers])
            self._shrunk = False

    def _inject(self, fault: MixedFault) -> Undo | None:
        return self._faults[fault.kind](self, fault)

    # -- processes

    def _node(self, number: int) -> AnyBroker:
        controllers = self._cluster.controllers
        return controllers[number] if number in controllers else self._cluster.brokers[number]

    def _spawn(self, number: int) -> None:
        if not self._node(number).running:
            self._cluster.spawn(number)

    def _note_end(self, number: int) -> None:
        """Record a node that has ended by itself."""
        node = self._node(number)
        status = node.ended
        if status is not None:
            self._recorder.note(NEMESIS, "died", broker=f"{number}", status=status)
            node.kill()

    def _down(self, victims: Iterable[int]) -> Undo | None:
        """Kill these nodes; return how to start them again, or None if one is busy."""
        chosen = [*victims]
        names = [*map(str, chosen)]
        if not chosen or not self._reserve(*names):
            return None
        for number in chosen:
            self._note_end(number)
            self._node(number).kill()

        def undo() -> None:
            self._release(*names)
            for number in chosen:
                self._spawn(number)

        return undo

    def _kill(self, fault: MixedFault) -> Undo | None:
        return self._down([fault.victim])

    def _kill_all(self, fault: MixedFault) -> Undo | None:
        return self._down(n for n in self._cluster.brokers if str(n) not in self._busy)

    def _kill_controller(self, fault: MixedFault) -> Undo | None:
        leader = self._cluster.leader()
        return None if leader is None else self._down([leader])

    def _kill_controllers(self, fault: MixedFault) -> Undo | None:
        return self._down(n for n in self._cluster.controllers if str(n) not in self._busy)

    def _pause(self, fault: MixedFault) -> Undo | None:
        return self._stand_still(fault.victim)

    def _pause_controller(self, fault: MixedFault) -> Undo | None:
        leader = self._cluster.leader()
        return None if leader is None else self._stand_still(leader)

    def _stand_still(self, number: int) -> Undo | None:
        """Pause a node; return how to resume it, or None if it is busy or has ended."""
        node = self._node(number)
        if node.ended is not None or not self._reserve(str(number)):
            return None
        node.pause()

        def undo() -> None:
            self._release(str(number))
            node.resume()

        return undo

    def _restart(self, fault: MixedFault) -> Undo | None:
        return self._stop(fault.victim, lambda: None)

    def _replace(self, fault: MixedFault) -> Undo | None:
        return self._stop(fault.victim, lambda: self._become_other(fault.victim))

    def _stop(self, victim: int, then: Callable[[], None]) -> Undo | None:
        """Stop a broker; the end of this fault waits for the stop, calls `then`, and starts it.

        A broker that cannot stop in order, since there is no controller, is killed after STOP_S.
        """
        node, statuses = self._node(victim), list[int]()
        if node.ended is not None or not node.running or not self._reserve(str(victim)):
            return None
        pid = node.pid
        stopping = threading.Thread(target=lambda: statuses.append(node.stop()))
        stopping.start()

        def undo() -> None:
            """Wait for the stop, record an unexpected exit status, and start the broker."""
            stopping.join(STOP_S)
            if stopping.is_alive():
                os.kill(pid, signal.SIGKILL)
                stopping.join()
            if not STOPPED.issuperset(statuses):
                self._recorder.note(NEMESIS, "died", broker=f"{victim}", status=statuses)
            self._release(str(victim))
            then()
            self._spawn(victim)

        return undo

    def _kill_and_replace(self, fault: MixedFault) -> Undo | None:
        start_again = self._down([fault.victim])
        if start_again is None:
            return None

        def undo() -> None:
            self._become_other(fault.victim)
            start_again()

        return undo

    def _become_other(self, number: int) -> None:
        kinds = self._cluster.kinds
        self._cluster.become(number, KWIRE if kinds[number] == APACHE else APACHE)

    # -- replicas

    def _shrink(self, fault: MixedFault) -> Undo | None:
        """Take the victim's replicas from it; the end of this fault asks for them again."""
        others = [number for number in self._cluster.brokers if number != fault.victim]
        with suppress(Refused):
            self._shrunk = True
            self._reassign(others, attempts=1)

        def undo() -> None:
            with suppress(Refused):  # `heal` repeats it
                self._reassign([*self._cluster.brokers], attempts=1)

        return undo

    def _reassign(self, replicas: Sequence[int], attempts: int = ATTEMPTS) -> None:
        """Give all partitions these replicas, in the order of their partition.  Raises Refused."""
        for attempt in range(1, attempts + 1):
            link = ClusterLink(self._addresses)
            try:
                self._ask_to_reassign(link, replicas)
            except Refused:
                if attempt == attempts:
                    raise
            else:
                return
            finally:
                link.close()
            time.sleep(RETRY_S)

    def _ask_to_reassign(self, link: ClusterLink, replicas: Sequence[int]) -> None:
        found = link.ask(MetadataRequest(topics=None)).topics
        topics = [
            ReassignableTopic(
                topic.name,
                [
                    ReassignablePartition(
                        partition.partition_index, _rotated(replicas, partition.partition_index)
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in found
        ]
        request = AlterPartitionReassignmentsRequest(timeout_ms=REQUEST_TIMEOUT_MS, topics=topics)
        answer = link.ask(request)
        codes = [answer.error_code]
        codes += [each.error_code for topic in answer.responses for each in topic.partitions]
        if any(codes):
            raise Refused(f"reassignment: {sorted({*codes})}")

    def _elect(self, fault: MixedFault) -> Undo | None:
        """Ask for the election of the preferred leaders; nothing has to be undone."""
        link = ClusterLink(self._addresses)
        request = ElectLeadersRequest(0, None, REQUEST_TIMEOUT_MS)
        try:
            link.ask(request)
        except Refused:
            return None
        finally:
            link.close()
        return lambda: None

    _faults: dict[MixedFaultKind, Callable[[MixedNemesis, MixedFault], Undo | None]] = {  # noqa: RUF012 - never changed
        MixedFaultKind.KILL: _kill,
        MixedFaultKind.KILL_ALL: _kill_all,
        MixedFaultKind.PAUSE: _pause,
        MixedFaultKind.RESTART: _restart,
        MixedFaultKind.REPLACE: _replace,
        MixedFaultKind.KILL_AND_REPLACE: _kill_and_replace,
        MixedFaultKind.SHRINK: _shrink,
        MixedFaultKind.ELECT: _elect,
        MixedFaultKind.CONTROLLER_KILL: _kill_controller,
        MixedFaultKind.CONTROLLER_PAUSE: _pause_controller,
        MixedFaultKind.CONTROLLERS_KILL: _kill_controllers,
    }


def _rotated(replicas: Sequence[int], by: int) -> list[int]:
    """The replicas, beginning with another one for each partition."""
    start = by % len(replicas)
    return [*replicas[start:], *replicas[:start]]
