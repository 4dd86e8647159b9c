"""The membership of a broker in a cluster of several brokers.

    join    register in the store, follow the configs there, and compete to be the controller
    stay    after the session with the store is lost: lead nothing until registered again
    leave   let other brokers take over what this one leads (controlled shutdown), then stop

The controller sends requests that say what the broker leads and follows, and what it answers
clients about topics and brokers: see kwire.cluster.replication.
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
from kwire.cluster.membership.ended import EndedBrokers
from kwire.cluster.membership.leaving import ShutdownLimits, hand_over
from kwire.cluster.membership.topic_requests import creation_request
from kwire.cluster.membership.waiting import ImageWaiters
from kwire.cluster.metadata.changes import ANY_BROKER_CHANGES, Change, Decision
from kwire.cluster.metadata.delta import ClusterDelta
from kwire.cluster.metadata.image import TOPIC_RESOURCE
from kwire.cluster.metadata.refusal import Refusal
from kwire.cluster.peers.error import PeerError
from kwire.cluster.peers.peers import Role
from kwire.cluster.replication.context import ReplicationContext
from kwire.cluster.replication.controller_requests import ControllerRequests
from kwire.cluster.replication.manager import ReplicaManager
from kwire.cluster.stores.contract import (
    BrokerEnded,
    ControllerGone,
    NotController,
    SessionLost,
    SessionResumed,
    SessionSuspended,
    StoreError,
    StoreEvent,
)
from kwire.cluster.stores.deciding import commit_decided
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.controlled_shutdown import ControlledShutdownRequest
from kwire.codecs.messages.leader_and_isr import LeaderAndIsrRequest
from kwire.codecs.messages.stop_replica import StopReplicaRequest
from kwire.codecs.messages.unregister_broker import UnregisterBrokerRequest
from kwire.codecs.messages.update_metadata import UpdateMetadataRequest

if TYPE_CHECKING:
    from kwire.broker.node import Node
    from kwire.cluster.controller.effects import ControllerEffects
    from kwire.cluster.controller.machine import ClusterController
    from kwire.cluster.metadata.acls import Acls
    from kwire.cluster.metadata.features import FinalizedFeatures
    from kwire.cluster.metadata.image import BrokerImage, ClusterImage, ResourceKey
    from kwire.cluster.metadata.quorum import MetadataQuorum
    from kwire.cluster.metadata.tokens import Tokens
    from kwire.cluster.stores.contract import ClusterStore
    from kwire.cluster.stores.kraft.forwarding import Forwarding, RequestSender
    from kwire.codecs.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
    from kwire.codecs.messages.controlled_shutdown import ControlledShutdownResponse
    from kwire.codecs.messages.leader_and_isr import LeaderAndIsrResponse
    from kwire.codecs.primitives import Message
    from kwire.log import Log

log = logging.getLogger("kwire.cluster")

CAMPAIGN_RETRY_S: Final = 0.5
REGISTER_RETRY_S: Final = 1.0
RESIGN_TIMEOUT_S: Final = 5.0
"""How long a stopping broker waits for the store to accept its resignation as controller.  After
that its term ends with its session, and another broker is elected as soon as the store notices
that."""
TOPIC_CREATION_TIMEOUT_MS: Final = 30_000
UNREGISTERED_TIMEOUT_MS: Final = 5_000
"""How long a broker waits for the news that the controller has unregistered itself, after the
connection to it ended.  The store sends the news as soon as it has taken the change."""


class ClusterMember:
    """The membership of a broker among others; see `ClusterMembership`."""

    def __init__(
        self,
        node: Node,
        store: ClusterStore,
        nursery: trio.Nursery,
        give_up: Callable[[StoreError], None],
    ) -> None:
        """`give_up` stops the broker: its cluster is gone for good."""
        self._node = node
        self._store = store
        self._nursery = nursery
        self._give_up = give_up
        self._host = _MemberContext(self, node)
        self._replication = ReplicaManager(self._host, nursery)
        self._requests = ControllerRequests(self._replication, self._host, nursery)
        self._agreement = Agreement(store, nursery)
        self.term: Term | None = None
        """The current term, while this broker is the controller."""
        self._no_controller = trio.Event()
        self._session_lost = trio.Event()
        self._waiters = ImageWaiters(node, nursery)
        self._ended = EndedBrokers()
        self.has_metadata = False
        """Whether the controller has sent the brokers, and topics if there were any at the
        start.  A new controller first sends the list of brokers alone."""
        self._expects_topics = False
        self._is_leaving = False
        self._hand_over_scope = trio.CancelScope()
        """Cancelled once no controller can decide who takes over."""
        self._is_only_one = False
        """Whether no other broker is a member."""
        self._is_unregistered = False

    forwarding: Forwarding | None = None

    @property
    def replication(self) -> ReplicaManager:
        return self._replication

    @property
    def controller_requests(self) -> ControllerRequests:
        return self._requests

    @property
    def image(self) -> ClusterImage:
        return self._node.image

    @property
    def ended_brokers(self) -> Collection[int]:
        if not self._store.can_register_again:
            # A client may ask between the end of a process and the fetchers' next turn.
            for broker_id in self._host.peers.broken(Role.FETCHER):
                self.leader_lost(broker_id)
        return self._ended.ids

    async def join(self) -> None:
        """Registers this broker in the cluster and starts its tasks.  Raises StoreError."""
        image = await self._store.load()
        self._adopt(image.configs, image.acls, image.tokens, image.registered, image.features)
        self._store.watch(self._image_changed)
        self._store.on_event = self._handle_event
        self._expects_topics = await self._store.has_topics()
        await self._register()
        self._no_controller.set()
        self._nursery.start_soon(self._campaign)
        self._nursery.start_soon(self._stay)

    async def _register(self) -> None:
        image = await self._store.register(self._node.registration)
        self._host.broker_epoch = image.brokers[self._node.node_id].epoch
        self._session_lost = trio.Event()  # a session lost before this registration does not count

    # -- events of the store

    def _image_changed(self, image: ClusterImage, delta: ClusterDelta) -> None:
        """Applies the store's new image to this broker and to its term as the controller.

        The image may begin or end the term.
        """
        if (
            delta.configs
            or delta.acls
            or delta.tokens
            or delta.registered
            or delta.features is not None
        ):
            self._adopt(delta.configs, delta.acls, delta.tokens, delta.registered, image.features)
        me = self._node.node_id
        if me in delta.registered and delta.registered[me] is None:
            self._unregistered()
        self._is_only_one = image.brokers.keys() <= {self._node.node_id}
        is_controller = image.controller_id == self._node.node_id
        term = self.term
        # End a former term first: another broker may have been the controller in between.
        if term is not None and not (is_controller and image.controller_epoch == term.epoch):
            term.end()
            term = self.term = None
        if term is not None:
            term.image_changed(image, delta)
        elif is_controller and not self._is_leaving:
            self._begin_term(image)
        self._agreement.follow(image, knows_topics=self.term is not None)

    def _handle_event(self, event: StoreEvent) -> None:
        """Handles an event of the metadata store.

        A lost session ends this broker's term: another broker may be the controller already.  The
        events of the last case are for the controller only.
        """
        match event:
            case ControllerGone():
                self._no_controller.set()
            case BrokerEnded(broker_id):
                self._ended.note(broker_id)
            case SessionLost():
                if self.term is not None:
                    self.term.end()
                    self.term = None
                self._session_lost.set()
            case SessionSuspended():
                log.warning("Cannot reach the metadata store of the cluster.")
            case SessionResumed():
                log.info("The metadata store of the cluster is reachable again.")
            case _ if self.term is not None:
                self.term.handle_event(event)

    def _adopt(
        self,
        configs: Mapping[ResourceKey, Mapping[str, str]],
        acls: Acls,
        tokens: Tokens,
        registered: Mapping[int, BrokerImage | None],
        features: FinalizedFeatures,
    ) -> None:
        """Copies changed configs, rights, tokens, registrations and features into the own image.

        The brokers and topics there stay: the controller sends those.
        """
        before = self._node.image
        new_configs = {key: new for key, new in configs.items() if before.configs_of(*key) != new}
        new_acls = {key: new for key, new in acls.items() if before.acls_on(key) != new}
        new_tokens = {key: new for key, new in tokens.items() if before.tokens.get(key) != new}
        new_brokers = {
            key: new for key, new in registered.items() if before.registered.get(key) != new
        }
        is_new = new_configs or new_acls or new_tokens or new_brokers
        if not is_new and before.features == features:
            return
        delta = ClusterDelta(
            configs=new_configs,
            deleting=before.deleting,
            controller_id=before.controller_id,
            controller_epoch=before.controller_epoch,
            next_producer_id=before.next_producer_id,
            version=before.version + 1,
            acls=new_acls,
            features=features,
            tokens=new_tokens,
            registered=new_brokers,
        )
        self._node.metadata.apply(delta.applied_to(before), delta)
        self.metadata_updated()

    async def read_configs(self, keys: Iterable[ResourceKey]) -> None:
        """Read the current configs of these resources from the store.  Raises StoreError."""
        wanted = list(keys)
        image = await self._store.read_configs(wanted)
        self._adopt({key: image.configs_of(*key) for key in wanted}, {}, {}, {}, image.features)

    async def _stay(self) -> None:
        """Registers again after each lost session; the cluster treats it as a new broker.

        It leads nothing until the controller says so.
        """
        while True:
            await self._session_lost.wait()
            self._session_lost = trio.Event()
            if not self._store.can_register_again:
                self._hand_over_scope.cancel()
            if self._is_leaving:
                return
            log.warning(
                "The session with the metadata store ended. This broker leads no partitions "
                "until it has registered again."
            )
            self._requests.step_down()
            if not self._store.can_register_again:
                self._give_up(StoreError("the process that held the metadata is gone"))
                return
            await self._rejoin()

    async def _rejoin(self) -> None:
        """Registers again: tries until the store accepts it, or the session is lost again."""
        while not self._session_lost.is_set():
            try:
                await self._register()
            except StoreError as error:
                log.warning("Cannot register this broker yet, trying again: %s", error)
                await trio.sleep(REGISTER_RETRY_S)
            else:
                self._no_controller.set()
                return

    def _unregistered(self) -> None:
        """Stops this broker: an administrator has removed it, and the others lead what it led.

        Apache Kafka's broker goes on without a part in its cluster until somebody restarts it.
        """
        log.warning("This broker was unregistered. It stops, and registers when it is started.")
        self._requests.step_down()
        self._is_unregistered = True
        self._give_up(StoreError("an administrator unregistered this broker"))

    # -- being the controller

    async def _campaign(self) -> None:
        """Tries to become the controller whenever the cluster has none, until cancelled."""
        while True:
            await self._no_controller.wait()
            self._no_controller = trio.Event()
            if self._is_leaving:
                return
            try:
                await self._store.campaign()
            except StoreError as error:
                log.warning("Cannot elect a controller yet, trying again: %s", error)
                await trio.sleep(CAMPAIGN_RETRY_S)
                self._no_controller.set()

    def _begin_term(self, image: ClusterImage) -> None:
        self.term = Term(self._node.settings, self._store, image, self._deliver)
        self._nursery.start_soon(self._run_term, self.term)

    async def _run_term(self, term: Term) -> None:
        """Runs one term as the controller; resigns if the store cannot be written."""
        try:
            await term.run()
        except* StoreError as errors:
            log.warning("This broker resigns as controller: %s", errors.exceptions[0])
            if self.term is term:
                self.term = None
                await self._resign()

    async def _resign(self) -> None:
        """Resigns as the controller; then this broker may campaign again."""
        try:
            await self._store.resign()
        except StoreError as error:
            log.warning("Cannot resign as controller: %s", error)
        self._no_controller.set()

    async def _deliver(self, request: Message) -> Message:
        """Carries out a request that this broker's own controller sends to this broker."""
        match request:
            case LeaderAndIsrRequest():
                # 7 is the version that this controller sends to all brokers.
                return await self.leader_and_isr(request, 7)
            case StopReplicaRequest():
                return self._requests.stop_replica(request)
            case UpdateMetadataRequest():
                return self._requests.update_metadata(request)
        raise AssertionError(f"a controller does not send {type(request).__name__}")

    async def leader_and_isr(
        self, request: LeaderAndIsrRequest, version: int
    ) -> LeaderAndIsrResponse:
        """Leads and follows partitions as the controller requests; returns the response.

        First reads the configs of topics that are new on this broker.
        """
        names = {topic.topic_name for topic in request.topic_states}
        names |= {state.topic_name for state in request.ungrouped_partition_states}
        unknown = [(TOPIC_RESOURCE, each) for each in names - self._node.hosted.by_topic.keys()]
        if unknown:
            await self.read_configs(unknown)
        return self._requests.leader_and_isr(request, version)

    # -- requests of clients

    @property
    def is_controller(self) -> bool:
        return self.term is not None

    async def ask(self, question: Callable[[ClusterController], ControllerEffects]) -> Any:  # noqa: ANN401 - depends on the question
        """The controller's reply, if this broker is the controller.

        Raises NotController, StoreError.
        """
        if self.term is None:
            raise NotController("This broker is not the controller of its cluster.")
        return await self.term.ask(question)

    async def commit(self, decisions: Sequence[Decision]) -> None:
        """See ClusterMembership.commit.

        Any broker may change configs, access control lists and delegation tokens; all other changes
        are the controller's.
        """
        if self.term is not None:
            await self.term.commit(decisions)
            return
        await commit_decided(
            self._store, lambda: self._node.image, decisions, self._check_any_broker_may
        )

    @staticmethod
    def _check_any_broker_may(changes: Sequence[Change]) -> None:
        if not all(isinstance(change, ANY_BROKER_CHANGES) for change in changes):
            raise NotController("This broker is not the controller of its cluster.")

    async def quorum(self) -> MetadataQuorum:
        return await self._store.quorum(self._node.now_ms())

    async def unregister_broker(self, broker_id: int) -> None:
        """Remove a broker, through the controller if that is another one.  A live broker stops.

        Raises Refusal, StoreError.
        """
        if self.term is not None:
            await self.term.ask(lambda machine: machine.unregister_broker(broker_id))
            return
        is_controller = broker_id == self.image.controller_id
        try:
            response = await self._host.controller().call(UnregisterBrokerRequest(broker_id))
        except PeerError as error:
            # A controller that has unregistered itself is gone before it can answer.  Other brokers
            # may learn that it is gone before they learn that it is unregistered.
            if is_controller and await self.wait_until(
                lambda image: broker_id not in image.registered, UNREGISTERED_TIMEOUT_MS
            ):
                return
            raise StoreError(str(error)) from error
        if response.error_code:
            raise Refusal(ErrorCode(response.error_code), response.error_message)

    async def create_internal_topic(self, name: str) -> None:
        """Create it here or by the controller.  Raises Refusal, StoreError."""
        if self.term is not None:
            await self.term.commit([internal_topic(self._node.settings, name)])
        else:
            await self._ask_for_topics([name])

    async def create_on_first_use(
        self, names: Sequence[str], sender: RequestSender | None = None
    ) -> None:
        """Create topics that a client named and that do not exist.  Raises StoreError."""
        if self.term is not None:
            await self.term.commit([on_first_use(self._node.settings, name) for name in names])
        else:
            await self._ask_for_topics(names)

    async def _ask_for_topics(self, names: Iterable[str]) -> None:
        """Asks the controller to create topics with default settings."""
        brokers = len(self.image.brokers)
        wanted = [by_default(self._node.config, each, brokers) for each in names]
        for name, reason in (await self.ask_for_topics(wanted)).items():
            log.info("The controller did not create topic %s: %s", name, reason)

    async def ask_for_topics(self, wanted: Sequence[NewTopic]) -> Mapping[str, str | None]:
        """Asks the controller to create topics.

        Returns the error message of each topic that was not created, by name.  Raises StoreError if
        the controller cannot be reached.
        """
        request = creation_request(wanted, TOPIC_CREATION_TIMEOUT_MS)
        try:
            response = await self._host.controller().call(request)
        except PeerError as error:
            raise StoreError(str(error)) from error
        return {each.name: each.error_message for each in response.topics if each.error_code}

    async def wait_for_metadata(self, timeout_ms: int) -> None:
        """Return once `has_metadata`, or after `timeout_ms`; later calls then return at once."""
        if not await self.wait_until(lambda _: self.has_metadata, timeout_ms):
            self.has_metadata = bool(self._node.image.brokers)

    async def wait_until(self, seen: Callable[[ClusterImage], bool], timeout_ms: int) -> bool:
        return await self._waiters.wait_until(seen, timeout_ms)

    def call_when(self, seen: Callable[[ClusterImage], bool], then: Callable[[], None]) -> None:
        self._waiters.call_when(seen, then)

    def metadata_updated(self) -> None:
        """Wakes the tasks that wait for new metadata.

        The metadata counts as complete once it has brokers, and topics if the store had any at the
        start.
        """
        image = self._node.image
        self.has_metadata |= bool(image.brokers) and (
            bool(image.topics) or not self._expects_topics
        )
        self._waiters.wake()

    def leader_lost(self, broker_id: int) -> None:
        """Take a leader that does not answer any more for ended, before the store says so.

        Clients notice the end of its process at the same time, and ask for metadata at once.  Does
        nothing if a broker may register again: then its session outlasts a lost connection.
        """
        if not self._store.can_register_again:
            self._ended.note(broker_id)

    # -- failed log directories, and leaving

    def configs_changed(self, changed: Collection[ResourceKey]) -> None:
        self._replication.configs_changed(changed)

    def logs_lost(self, path: Path, lost: list[Log]) -> bool:
        """Stop following with these logs, and report the failed directory to the controller."""
        self._replication.logs_lost(lost)
        self._nursery.start_soon(self.report_offline)
        return True

    def open_missing(self) -> None:
        """Nothing to do: replication asks the controller again for what it could not open."""

    async def report_offline(self) -> None:
        """Reports a failed log directory to the controller.

        The controller then asks by LeaderAndIsr which partitions are offline.
        """
        try:
            await self._store.log_dir_failed()
        except StoreError as error:
            log.error("Cannot report failed log directories to the controller: %s", error)

    async def leave(self) -> None:
        """Hands over the partitions led here, as far as possible, and resigns as the controller."""
        self._is_leaving = True
        config = self._node.config
        if config.controlled_shutdown_enable and not self._is_unregistered:
            with self._hand_over_scope:
                await hand_over(
                    self._request_shutdown, lambda: self._is_only_one, ShutdownLimits.of(config)
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

    async def _request_shutdown(self) -> ControlledShutdownResponse:
        """Send one ControlledShutdown to the controller.  Raises PeerError, StoreError."""
        request = ControlledShutdownRequest(self._node.node_id, self._host.broker_epoch)
        answer: ControlledShutdownResponse
        if self.term is not None:
            answer = await self.term.ask(lambda machine: machine.controlled_shutdown(request))
        else:
            answer = await self._host.controller().call(request)
        return answer


class _MemberContext(ReplicationContext):
    """The broker as replication sees it; the controller may be this broker itself."""

    def __init__(self, member: ClusterMember, node: Node) -> None:
        super().__init__(node)
        self._member = member

    def apply_metadata(self, image: ClusterImage, delta: ClusterDelta) -> None:
        super().apply_metadata(image, delta)
        self._member.metadata_updated()

    def leader_lost(self, broker_id: int) -> None:
        self._member.leader_lost(broker_id)

    async def report_offline(self) -> None:
        await self._member.report_offline()

    async def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """Sends AlterPartition to the controller; returns its response.  Raises PeerError."""
        if not self._member.is_controller:
            return await super().alter_partition(request)
        answer: AlterPartitionResponse
        try:
            answer = await self._member.ask(lambda machine: machine.alter_partition(request))
        except StoreError as error:
            raise PeerError("the controller", str(error)) from error
        return answer
