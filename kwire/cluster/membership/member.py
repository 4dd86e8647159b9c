"""A broker's part in a cluster: it joins, is the controller when it is elected, and leaves.

    join    register in the store, follow the configs there, campaign for the office of controller
    stay    a session that was lost: lead nothing until registered anew
    leave   have others lead what this broker led (controlled shutdown), then go

What it leads and follows, and what it tells clients of topics and brokers, the controller tells it
by requests (kwire.cluster.replication).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import trio

from kwire.cluster.decisions.topic_creation import (
    NewTopic,
    by_default,
    internal_topic,
    on_first_use,
)
from kwire.cluster.membership.agreeing import Agreement
from kwire.cluster.membership.controlling import Term
from kwire.cluster.membership.leaving import ShutdownLimits, hand_over
from kwire.cluster.metadata.changes import ANYBODYS, Change, Decision
from kwire.cluster.metadata.delta import ClusterDelta
from kwire.cluster.metadata.image import TOPIC_RESOURCE
from kwire.cluster.peers.error import PeerError
from kwire.cluster.replication.context import ReplicationContext
from kwire.cluster.replication.manager import ReplicaManager
from kwire.cluster.stores.contract import (
    ControllerGone,
    NotController,
    SessionBack,
    SessionLost,
    SessionSuspended,
    StoreError,
    StoreEvent,
)
from kwire.cluster.stores.deciding import commit_decided
from kwire.codecs.messages.controlled_shutdown import ControlledShutdownRequest
from kwire.codecs.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kwire.codecs.messages.leader_and_isr import LeaderAndIsrRequest
from kwire.codecs.messages.stop_replica import StopReplicaRequest
from kwire.codecs.messages.update_metadata import UpdateMetadataRequest

if TYPE_CHECKING:
    from kwire.broker.node import Node
    from kwire.cluster.controller.effects import ControllerEffects
    from kwire.cluster.controller.machine import ClusterController
    from kwire.cluster.metadata.acls import Acls
    from kwire.cluster.metadata.features import FinalizedFeatures
    from kwire.cluster.metadata.image import ClusterImage, ResourceKey
    from kwire.cluster.metadata.tokens import Tokens
    from kwire.cluster.stores.contract import ClusterStore
    from kwire.codecs.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
    from kwire.codecs.messages.controlled_shutdown import ControlledShutdownResponse
    from kwire.codecs.messages.leader_and_isr import LeaderAndIsrResponse
    from kwire.codecs.primitives import Message
    from kwire.log import Log

log = logging.getLogger("kwire.cluster")

CAMPAIGN_RETRY_S: Final = 0.5
REGISTER_RETRY_S: Final = 1.0
RESIGN_TIMEOUT_S: Final = 5.0
"""How long a broker that stops waits for the store to take back the office of controller.  Later
the office ends with the broker's session, so that the store elects another as soon as it can."""
TOPIC_CREATION_TIMEOUT_MS: Final = 30_000


class ClusterMember:
    """See the module."""

    def __init__(
        self,
        node: Node,
        store: ClusterStore,
        nursery: trio.Nursery,
        give_up: Callable[[StoreError], None],
    ) -> None:
        """`give_up` has the broker stop: its cluster is gone for good."""
        self._node = node
        self._store = store
        self._nursery = nursery
        self._give_up = give_up
        self._host = _MemberContext(self, node)
        self._replication = ReplicaManager(self._host, nursery)
        self._agreement = Agreement(store, nursery)
        self.term: Term | None = None
        """While this broker is the controller."""
        self._vacant = trio.Event()
        self._session_lost = trio.Event()
        self._metadata_came = trio.Event()
        self.has_metadata = False
        """Whether the controller has told of brokers, and of topics if there were any at the start:
        a new controller tells all of who is a member first."""
        self._expects_topics = False
        self._is_leaving = False
        self._handing_over = trio.CancelScope()
        """Cancelled where no controller could decide any more who takes over."""
        self._is_only_one = False
        """Whether no other broker is a member."""

    @property
    def replication(self) -> ReplicaManager:
        return self._replication

    @property
    def image(self) -> ClusterImage:
        return self._node.image

    async def join(self) -> None:
        """Be a member from now on.  Raises StoreError."""
        image = await self._store.load()
        self._adopt(image.configs, image.acls, image.tokens, image.features)
        self._store.watch(self._changed)
        self._store.on_event = self._heard
        self._expects_topics = await self._store.has_topics()
        await self._register()
        self._vacant.set()
        self._nursery.start_soon(self._govern)
        self._nursery.start_soon(self._stay)

    async def _register(self) -> None:
        image = await self._store.register(self._node.registration)
        self._host.broker_epoch = image.brokers[self._node.node_id].epoch
        self._session_lost = trio.Event()  # one lost meanwhile was before this registration

    # -- what the store tells

    def _changed(self, image: ClusterImage, delta: ClusterDelta) -> None:
        if delta.configs or delta.acls or delta.tokens or delta.features is not None:
            self._adopt(delta.configs, delta.acls, delta.tokens, image.features)
        self._is_only_one = image.brokers.keys() <= {self._node.node_id}
        is_controller = image.controller_id == self._node.node_id
        term = self.term
        if term is not None and not (is_controller and image.controller_epoch == term.epoch):
            term.end()
            term = self.term = None
        if term is not None:
            term.image_changed(image, delta)
        elif is_controller and not self._is_leaving:
            self._take_office(image)
        self._agreement.follow(image, knows_topics=self.term is not None)

    def _heard(self, event: StoreEvent) -> None:
        match event:
            case ControllerGone():
                self._vacant.set()
            case SessionLost():
                if self.term is not None:
                    self.term.end()
                    self.term = None
                self._session_lost.set()
            case SessionSuspended():
                log.warning("the store of the cluster cannot be reached")
            case SessionBack():
                log.info("the store of the cluster is reached again")
            case _ if self.term is not None:
                self.term.heard(event)

    def _adopt(
        self,
        configs: Mapping[ResourceKey, Mapping[str, str]],
        acls: Acls,
        tokens: Tokens,
        features: FinalizedFeatures,
    ) -> None:
        """The broker lives by these from now on; its image has them, and is else as it was."""
        before = self._node.image
        told = {key: its for key, its in configs.items() if before.configs_of(*key) != its}
        changed = {key: its for key, its in acls.items() if before.acls_on(key) != its}
        given = {key: its for key, its in tokens.items() if before.tokens.get(key) != its}
        if not told and not changed and not given and before.features == features:
            return
        delta = ClusterDelta(
            configs=told,
            deleting=before.deleting,
            controller_id=before.controller_id,
            controller_epoch=before.controller_epoch,
            next_producer_id=before.next_producer_id,
            version=before.version + 1,
            acls=changed,
            features=features,
            tokens=given,
        )
        self._node.metadata.apply(delta.applied_to(before), delta)

    async def read_configs(self, keys: Iterable[ResourceKey]) -> None:
        """Have the broker know what is set on these now.  Raises StoreError."""
        wanted = list(keys)
        image = await self._store.read_configs(wanted)
        self._adopt({key: image.configs_of(*key) for key in wanted}, {}, {}, image.features)

    async def _stay(self) -> None:
        """A session that was lost is over for good: be a new broker, which leads nothing yet."""
        while True:
            await self._session_lost.wait()
            self._session_lost = trio.Event()
            if not self._store.has_way_back:
                self._handing_over.cancel()
            if self._is_leaving:
                return
            log.warning("the cluster has seen this broker go: it leads nothing until it is back")
            self._replication.step_down()
            if not self._store.has_way_back:
                self._give_up(StoreError("the process that held the metadata is gone"))
                return
            await self._return()

    async def _return(self) -> None:
        while not self._session_lost.is_set():
            try:
                await self._register()
            except StoreError as problem:
                log.warning("the broker is no member of its cluster yet: %s", problem)
                await trio.sleep(REGISTER_RETRY_S)
            else:
                self._vacant.set()
                return

    # -- the office

    async def _govern(self) -> None:
        """Campaign whenever nobody is the controller."""
        while True:
            await self._vacant.wait()
            self._vacant = trio.Event()
            if self._is_leaving:
                return
            try:
                await self._store.campaign()
            except StoreError as problem:
                log.warning("the election of a controller is tried again: %s", problem)
                await trio.sleep(CAMPAIGN_RETRY_S)
                self._vacant.set()

    def _take_office(self, image: ClusterImage) -> None:
        self.term = Term(self._node.settings, self._store, image, self._deliver)
        self._nursery.start_soon(self._reign, self.term)

    async def _reign(self, term: Term) -> None:
        try:
            await term.run()
        except* StoreError as problems:
            log.warning("the office of controller is given up: %s", problems.exceptions[0])
            if self.term is term:
                self.term = None
                await self._resign()

    async def _resign(self) -> None:
        try:
            await self._store.resign()
        except StoreError as problem:
            log.warning("the office of controller was not given back: %s", problem)
        self._vacant.set()

    async def _deliver(self, request: Message) -> Message:
        """What this broker's own controller asks of it."""
        match request:
            case LeaderAndIsrRequest():
                return await self.leader_and_isr(request, 7)
            case StopReplicaRequest():
                return self._replication.stop_replica(request)
            case UpdateMetadataRequest():
                return self._replication.update_metadata(request)
        raise AssertionError(f"a controller asks no {type(request).__name__}")

    async def leader_and_isr(
        self, request: LeaderAndIsrRequest, version: int
    ) -> LeaderAndIsrResponse:
        """Lead and follow as told; what is set on topics that are new here is read before."""
        names = {topic.topic_name for topic in request.topic_states}
        names |= {state.topic_name for state in request.ungrouped_partition_states}
        unknown = [(TOPIC_RESOURCE, each) for each in names - self._node.hosted.by_topic.keys()]
        if unknown:
            await self.read_configs(unknown)
        return self._replication.leader_and_isr(request, version)

    # -- what clients want of the cluster

    @property
    def is_controller(self) -> bool:
        return self.term is not None

    async def ask(self, question: Callable[[ClusterController], ControllerEffects]) -> Any:  # noqa: ANN401 - by what is asked
        """The controller's answer, where this broker is it.  Raises NotController, StoreError."""
        if self.term is None:
            raise NotController("this broker is not the controller of its cluster")
        return await self.term.ask(question)

    async def commit(self, decisions: Sequence[Decision]) -> None:
        """See Broker.commit.  Configs, access control lists and delegation tokens are any broker's
        to change, all else the controller's."""
        if self.term is not None:
            await self.term.commit(decisions)
            return
        await commit_decided(self._store, lambda: self._node.image, decisions, self._check_anybodys)

    @staticmethod
    def _check_anybodys(changes: Sequence[Change]) -> None:
        if not all(isinstance(change, ANYBODYS) for change in changes):
            raise NotController("this broker is not the controller of its cluster")

    async def create_internal_topic(self, name: str) -> None:
        """By the controller, which may be another broker.  Raises Refusal, StoreError."""
        if self.term is not None:
            await self.term.commit([internal_topic(self._node.settings, name)])
        else:
            await self._ask_for_topics([name])

    async def create_on_first_use(self, names: Sequence[str]) -> None:
        """Topics that a client asked for and that are not there.  Raises StoreError."""
        if self.term is not None:
            await self.term.commit([on_first_use(self._node.settings, name) for name in names])
        else:
            await self._ask_for_topics(names)

    async def _ask_for_topics(self, names: Iterable[str]) -> None:
        brokers = len(self.image.brokers)
        wanted = [by_default(self._node.config, each, brokers) for each in names]
        for name, why in (await self.ask_for_topics(wanted)).items():
            log.info("%s is not created: %s", name, why)

    async def ask_for_topics(self, wanted: Sequence[NewTopic]) -> Mapping[str, str | None]:
        request = CreateTopicsRequest(
            [
                CreatableTopic(
                    each.name,
                    each.num_partitions,
                    each.replication_factor,
                    configs=[CreatableTopicConfig(*item) for item in each.configs.items()],
                )
                for each in wanted
            ],
            timeout_ms=TOPIC_CREATION_TIMEOUT_MS,
        )
        try:
            response = await self._host.controller().call(request)
        except PeerError as problem:
            raise StoreError(str(problem)) from problem
        return {each.name: each.error_message for each in response.topics if each.error_code}

    async def wait_for_metadata(self, timeout_ms: int) -> None:
        """Return once it is, or has waited in vain for so long: it is not waited for again then."""
        if not await self.wait_until(lambda _: self.has_metadata, timeout_ms):
            self.has_metadata = bool(self._node.image.brokers)

    async def wait_until(self, seen: Callable[[ClusterImage], bool], timeout_ms: int) -> bool:
        """Whether what this broker tells clients becomes so in time."""
        with trio.move_on_after(timeout_ms / 1000):
            while not seen(self._node.image):
                await self._metadata_came.wait()
            return True
        return False

    def call_when(self, seen: Callable[[ClusterImage], bool], then: Callable[[], None]) -> None:
        """Call `then` once what this broker tells clients is so."""

        async def wait() -> None:
            while not seen(self._node.image):
                await self._metadata_came.wait()
            then()

        self._nursery.start_soon(wait)

    def metadata_came(self) -> None:
        image = self._node.image
        self.has_metadata |= bool(image.brokers) and (
            bool(image.topics) or not self._expects_topics
        )
        event, self._metadata_came = self._metadata_came, trio.Event()
        event.set()

    # -- disks, and the end

    def configs_changed(self, changed: Collection[ResourceKey]) -> None:
        self._replication.configs_changed(changed)

    def logs_lost(self, path: Path, lost: list[Log]) -> bool:
        """Follow on these logs no longer, and tell the controller that a directory has failed."""
        self._replication.logs_lost(lost)
        self._nursery.start_soon(self.report_offline)
        return True

    def open_missing(self) -> None:
        """Nothing to do: replication has the controller tell it again what it could not open."""

    async def report_offline(self) -> None:
        """Have the controller ask, by LeaderAndIsr, which partitions cannot be served here."""
        try:
            await self._store.log_dir_failed()
        except StoreError as problem:
            log.error("which partitions are offline is told to nobody: %s", problem)

    async def leave(self) -> None:
        """Have others lead what this broker leads, as far as they can, and give up the office."""
        self._is_leaving = True
        config = self._node.config
        if config.controlled_shutdown_enable:
            with self._handing_over:
                await hand_over(
                    self._ask_to_be_relieved, lambda: self._is_only_one, ShutdownLimits.of(config)
                )
        if self.term is not None:
            self.term.end()
            self.term = None
            with trio.move_on_after(RESIGN_TIMEOUT_S) as scope:
                await self._resign()
            if scope.cancelled_caught:
                log.warning(
                    "The store of the cluster did not answer within %g s. This broker stays the "
                    "controller there until the store sees that its session has ended.",
                    RESIGN_TIMEOUT_S,
                )

    async def _ask_to_be_relieved(self) -> ControlledShutdownResponse:
        """Send one ControlledShutdown to the controller.  Raises PeerError, StoreError."""
        request = ControlledShutdownRequest(self._node.node_id, self._host.broker_epoch)
        answer: ControlledShutdownResponse
        if self.term is not None:
            answer = await self.term.ask(lambda machine: machine.controlled_shutdown(request))
        else:
            answer = await self._host.controller().call(request)
        return answer


class _MemberContext(ReplicationContext):
    """As replication sees this broker; the controller may be this broker itself."""

    def __init__(self, member: ClusterMember, node: Node) -> None:
        super().__init__(node)
        self._member = member

    def apply_metadata(self, image: ClusterImage, delta: ClusterDelta) -> None:
        super().apply_metadata(image, delta)
        self._member.metadata_came()

    async def report_offline(self) -> None:
        await self._member.report_offline()

    async def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """Raises PeerError."""
        if not self._member.is_controller:
            return await super().alter_partition(request)
        answer: AlterPartitionResponse
        try:
            answer = await self._member.ask(lambda machine: machine.alter_partition(request))
        except StoreError as problem:
            raise PeerError("the controller", str(problem)) from problem
        return answer
