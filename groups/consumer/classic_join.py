"""JoinGroup in a consumer group: a member of the classic protocol joins or rejoins.

The request is answered at once, without waiting for other members.  The generation in the response
is the member epoch, and there is no leader, because the coordinator assigns the partitions.  The
member gets its assignment with SyncGroup.
"""

from __future__ import annotations

from dataclasses import replace

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kwire.codecs.messages.coordinator.consumer_group_member_metadata import (
    ClassicMemberMetadata,
    ClassicProtocol,
)
from kwire.codecs.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kwire.codecs.primitives import DecodeError
from kwire.groups.classic.decision import ClassicCaller, join_error
from kwire.groups.classic.join import MEMBER_ID_REQUIRED_SINCE
from kwire.groups.consumer import downgrade, embedded
from kwire.groups.consumer.decision import ConsumerDecision
from kwire.groups.consumer.group import CONSUMER_PROTOCOL_TYPE
from kwire.groups.consumer.member import ConsumerMember
from kwire.groups.consumer.removal import tombstones
from kwire.groups.consumer.timers import ClassicJoinTimer, ClassicSyncTimer
from kwire.groups.effects import GroupEffects, Ticket


class HostedClassicJoin:
    """The decision about one JoinGroup request in a consumer group that has members."""

    def __init__(
        self,
        decision: ConsumerDecision,
        request: JoinGroupRequest,
        caller: ClassicCaller,
        new_member_id: str,
    ) -> None:
        """`new_member_id` is used if the request has no member id."""
        self.decision = decision
        self.group = decision.group
        self._request = request
        self._caller = caller
        self._member_id = request.member_id or new_member_id

    def decide(self, ticket: Ticket) -> GroupEffects:
        """Return the effects of the join; the reply comes at once.

        Errors: the group is full, the protocols do not fit, the subscription is unreadable, or the
        member must first get an id.
        """
        error = self._refused()
        if error is not ErrorCode.NONE:
            return GroupEffects.reply(ticket, join_error(error))
        if self._needs_id():
            required = join_error(ErrorCode.MEMBER_ID_REQUIRED, self._member_id)
            return GroupEffects.reply(ticket, required)
        try:
            subscription = embedded.subscription(self._request.protocols[0].metadata)
        except DecodeError:
            return GroupEffects.reply(ticket, join_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        member = self._member()
        if isinstance(member, ErrorCode):
            return GroupEffects.reply(ticket, join_error(member))
        joined = self._join(member, subscription)
        if joined is None:
            return GroupEffects.reply(ticket, join_error(ErrorCode.FENCED_MEMBER_EPOCH))
        self.decision.reply(ticket, self._response(joined))
        return self.decision.effects

    # -- check the request, identify the member

    def _refused(self) -> ErrorCode:
        """Return why the group cannot accept the request, NONE if it can."""
        group, size_max = self.group, self.decision.limits.group_consumer_max_size
        if len(group.members) >= size_max and self._member_id not in group.members:
            return ErrorCode.GROUP_MAX_SIZE_REACHED
        names = [protocol.name for protocol in self._request.protocols]
        if not group.supports_classic(self._request.protocol_type, names):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return ErrorCode.NONE

    def _needs_id(self) -> bool:
        """Whether the member gets an id first (KIP-394).  The group does not store such ids."""
        request = self._request
        dynamic = request.group_instance_id is None and not request.member_id
        return dynamic and self._caller.api_version >= MEMBER_ID_REQUIRED_SINCE

    def _member(self) -> ConsumerMember | ErrorCode:
        """Return the member as it was before the request, or the error.

        A static member that comes back without its member id replaces the old one.
        """
        request, group = self._request, self.group
        instance_id = request.group_instance_id
        holder = None if instance_id is None else group.static_member(instance_id)
        if instance_id is None or (holder is None and not request.member_id):
            self.decision.note(f"member {self._member_id} joins by the classic protocol")
            return group.members.get(self._member_id) or ConsumerMember(self._member_id)
        if holder is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not request.member_id:
            return self.decision.replace_static_member(holder, self._member_id)
        same = holder.member_id == request.member_id
        return holder if same else ErrorCode.FENCED_INSTANCE_ID

    # -- decide

    def _join(
        self, member: ConsumerMember, subscription: ConsumerProtocolSubscription
    ) -> ConsumerMember | None:
        """Update the member, and move it one step towards its target.

        Returns None if the member must give up everything and rejoin.  If it is the last member of
        the consumer protocol, the group becomes a classic group.
        """
        decision = self.decision
        updated = self._updated_member(member, subscription)
        if updated != member:
            decision.append(updated.to_metadata(self.group.group_id))
        changed = updated.topic_names != member.topic_names
        owned = embedded.owned(subscription, decision.surroundings.image)
        downgrades = self._downgrades(updated)
        epoch = decision.epoch(updated, begin=changed)
        if downgrades and changed:
            joined: ConsumerMember | None = updated
        else:
            goal = decision.last_target(updated) if downgrades else decision.target(updated, epoch)
            joined = decision.reconcile(updated, goal, owned, subscription_changed=changed)
        if joined is not None and downgrades:
            self._downgrade(joined, changed=changed)
        elif joined is not None:
            self._await_sync(joined)
        return joined

    def _updated_member(
        self, member: ConsumerMember, subscription: ConsumerProtocolSubscription
    ) -> ConsumerMember:
        """Return the member with the subscription, timeouts and protocols of the request."""
        request = self._request
        instance_id = request.group_instance_id
        return replace(
            member,
            instance_id=member.instance_id if instance_id is None else instance_id,
            rack_id=member.rack_id if subscription.rack_id is None else subscription.rack_id,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            topic_names=frozenset(subscription.topics),
            client_id=self._caller.client_id,
            client_host=self._caller.client_host,
            classic=ClassicMemberMetadata(
                request.session_timeout_ms,
                [
                    ClassicProtocol(protocol.name, protocol.metadata)
                    for protocol in request.protocols
                ],
            ),
        )

    def _downgrades(self, updated: ConsumerMember) -> bool:
        """Whether the last member of the consumer protocol rejoins with the classic protocol."""
        instance_id = self._request.group_instance_id
        holder = None if instance_id is None else self.group.static_member(instance_id)
        if holder is None or holder.classic is not None:
            return False
        return downgrade.is_due(self.decision, self.decision.members_with(updated).values())

    def _downgrade(self, joined: ConsumerMember, *, changed: bool) -> None:
        """Convert to a classic group; it rebalances only if the member's topics changed."""
        decision = self.decision
        renamed = None if decision.replaced is None else (decision.replaced, joined.member_id)
        decision.append(*tombstones(self.group, renamed))
        why = f"static member {joined.member_id} came back with other topics" if changed else None
        downgrade.to_classic(decision, decision.members_with(joined).values(), why)

    def _await_sync(self, joined: ConsumerMember) -> None:
        """Expect heartbeats and a SyncGroup of the member, and cancel the timers of its rejoin."""
        decision, group_id, member_id = self.decision, self.group.group_id, joined.member_id
        decision.cancel_timer(ClassicJoinTimer(group_id, member_id).key)
        decision.end_revocation(member_id)
        decision.expect_heartbeat(joined)
        timer = ClassicSyncTimer(group_id, member_id)
        decision.set_timer(timer, joined.rebalance_timeout_ms)

    def _response(self, joined: ConsumerMember) -> JoinGroupResponse:
        """Return the JoinGroup response; the generation is the member epoch."""
        return JoinGroupResponse(
            generation_id=joined.epoch,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol_name=self._request.protocols[0].name,
            member_id=joined.member_id,
        )
