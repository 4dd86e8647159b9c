"""The election of the primary, which alone writes: by the group protocol, as Confluent's registry.

The instances are members of a group of the protocol type `sr`.  Each tells the others its URL; the
group's leader assigns to all the identity of the primary: of those that may be it, the one whose
URL is the first by order of letters.

    metadata     {"version":1,"host":H,"port":P,"master_eligibility":true,"scheme":"http"}
    assignment   {"version":1,"error":0,"master":MEMBER_ID,"master_identity":METADATA}

A paused primary does not know that another has taken over.  So it writes only within LEASE_S of a
request by which the coordinator confirmed it, and the log decides about what is written after all
(kwire.registry.subjects.state).
Source: the requests of Confluent's registry 7, and its documentation, High availability.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from kwire.client.cluster import Cluster
from kwire.client.connection import address_text
from kwire.client.errors import ClientError
from kwire.client.membership.classic import ClassicMembership

GROUP_DEFAULT: Final = "schema-registry"
SESSION_TIMEOUT_MS: Final = 10_000
"""How long after its death a primary is replaced."""
HEARTBEAT_INTERVAL_MS: Final = 1_000
REBALANCE_TIMEOUT_MS: Final = 30_000
"""How long an election waits for members that do not answer."""
LEASE_S: Final = SESSION_TIMEOUT_MS / 1000 / 2
PAUSE_S: Final = 1.0
"""The pause after an error of the cluster."""
VERSION: Final = 1
NO_ERROR: Final = 0
DUPLICATE_URLS: Final = 1

log = logging.getLogger("kwire.registry")


class InstanceIdentity(NamedTuple):
    """Where an instance is reached by the others."""

    host: str
    port: int
    scheme: str = "http"
    is_eligible: bool = True
    """Whether it may become the primary."""

    @property
    def url(self) -> str:
        """The URL, without a slash at its end."""
        return f"{self.scheme}://{address_text(self.host, self.port)}"

    def fields(self) -> dict[str, Any]:
        """The identity as JSON."""
        return {
            "version": VERSION,
            "host": self.host,
            "port": self.port,
            "master_eligibility": self.is_eligible,
            "scheme": self.scheme,
        }


def read_identity(fields: object) -> InstanceIdentity:
    """The identity in JSON.  Raises ValueError."""
    if not isinstance(fields, dict):
        raise ValueError("an identity is a JSON object")
    host, port = fields.get("host"), fields.get("port")
    if not isinstance(host, str) or not isinstance(port, int):
        raise ValueError("an identity needs a host and a port")
    scheme = str(fields.get("scheme") or "http")
    return InstanceIdentity(host, port, scheme, bool(fields.get("master_eligibility", True)))


class Elected(NamedTuple):
    """The outcome of an election."""

    member_id: str | None
    identity: InstanceIdentity | None
    """The primary; None if no instance may be it."""
    error: int = NO_ERROR


def elect(members: Mapping[str, bytes]) -> Elected:
    """The primary among members, by their metadata.  Raises ValueError."""
    identities = {each: read_identity(json.loads(data)) for each, data in members.items()}
    eligible = {each: identity for each, identity in identities.items() if identity.is_eligible}
    urls = {identity.url for identity in identities.values()}
    error = NO_ERROR if len(urls) == len(identities) else DUPLICATE_URLS
    if not eligible:
        return Elected(None, None, error)
    member_id = min(eligible, key=lambda each: (eligible[each].url, each))
    return Elected(member_id, eligible[member_id], error)


def write_assignment(elected: Elected) -> bytes:
    """The assignment of every member."""
    fields: dict[str, Any] = {"version": VERSION, "error": elected.error}
    if elected.identity is not None:
        fields |= {"master": elected.member_id, "master_identity": elected.identity.fields()}
    return json.dumps(fields).encode()


def read_assignment(data: bytes) -> Elected:
    """The outcome in an assignment.  Raises ValueError."""
    fields = json.loads(data)
    if not isinstance(fields, dict):
        raise ValueError("an assignment is a JSON object")
    identity = fields.get("master_identity")
    return Elected(
        fields.get("master"),
        None if identity is None else read_identity(identity),
        int(fields.get("error") or NO_ERROR),
    )


class RegistryMember(ClassicMembership):
    """The membership of an instance."""

    PROTOCOL_TYPE = "sr"
    PROTOCOL = "v0"

    def __init__(self, cluster: Cluster, group_id: str, identity: InstanceIdentity) -> None:
        """Nothing is sent until the member joins."""
        super().__init__(
            cluster,
            group_id,
            heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
        )
        self._identity = identity

    def metadata(self) -> bytes:
        """See ClassicMembership."""
        return json.dumps(self._identity.fields()).encode()

    def remove_predecessors(self) -> None:
        """Remove members with this instance's address, before it joins.

        They are a killed process, or a membership that this one has lost: this instance has bound
        the address.  Else an election would wait until their sessions end.  A member that is alive
        after all joins again with its next heartbeat.
        """
        for member_id, data in self.present_members().items():
            try:
                identity = read_identity(json.loads(data))
            except ValueError:
                continue
            if (identity.host, identity.port) == (self._identity.host, self._identity.port):
                log.info("removing %s from the group: it had this instance's address", member_id)
                self.remove(member_id, "another process has its address")

    def assignments(self, members: Mapping[str, bytes]) -> dict[str, bytes]:
        """See ClassicMembership."""
        elected = elect(members)
        return dict.fromkeys(members, write_assignment(elected))


class PrimaryElection:
    """This instance's part in elections, in a thread of its own."""

    def __init__(
        self,
        connect: Callable[[], Cluster],
        group_id: str,
        identity: InstanceIdentity,
        *,
        before_join: Callable[[], None] = lambda: None,
    ) -> None:
        """`before_join` is called when the primary is not known any longer, before this instance
        takes part in another election.  Nothing is sent yet."""
        self.identity = identity
        self.primary: InstanceIdentity | None = None
        """The primary; None while it is not known."""
        self.has_none = False
        """Whether no instance may be the primary."""
        self.generation = 0
        """A number that grows with each election of which this instance knows the outcome."""
        self._connect = connect
        self._group_id = group_id
        self._before_join = before_join
        self._member: RegistryMember | None = None
        self._is_self = False
        self._changed = threading.Condition()
        self._stopped = threading.Event()

    @property
    def is_primary(self) -> bool:
        """Whether this instance is the primary, and the coordinator confirmed it lately."""
        member = self._member
        return (
            self._is_self
            and member is not None
            and time.monotonic() - member.confirmed_at < LEASE_S
        )

    def wait(self, timeout_s: float) -> bool:
        """Wait until the primary is known, or that there is none.  Returns whether it is."""
        with self._changed:
            return self._changed.wait_for(
                lambda: self.is_primary if self._is_self else self._has_outcome, timeout_s
            )

    @property
    def _has_outcome(self) -> bool:
        return self.has_none or self.primary is not None

    def await_change(self, timeout_s: float) -> None:
        """Wait for an election, a confirmation, or the timeout."""
        with self._changed:
            self._changed.wait(timeout_s)

    def run(self) -> None:
        """Take part in elections until `stop`."""
        while not self._stopped.is_set():
            try:
                with self._connect() as cluster:
                    self._run(cluster)
            except (ClientError, OSError, ValueError) as error:
                log.warning("cannot elect a primary: %s; trying again", error)
            finally:
                self._set(None)
            self._stopped.wait(PAUSE_S)

    def stop(self) -> None:
        """Leave the group; `run` ends."""
        self._stopped.set()

    def _run(self, cluster: Cluster) -> None:
        """Be a member until an error or the end."""
        member = self._member = RegistryMember(cluster, self._group_id, self.identity)
        member.remove_predecessors()
        try:
            while not self._stopped.is_set():
                self._before_join()
                self._set(read_assignment(member.join_group()))
                while not self._stopped.is_set() and member.heartbeat():
                    self._notify()
                    self._stopped.wait(HEARTBEAT_INTERVAL_MS / 1000)
                self._set(None)
        finally:
            self._is_self = False
            if self._stopped.is_set():
                member.leave()

    def _set(self, elected: Elected | None) -> None:
        """Keep the outcome of an election; None: it is not known."""
        identity = None if elected is None else elected.identity
        if elected is not None and elected.error == DUPLICATE_URLS:
            log.error(
                "two instances are reached at one URL: give each its own --advertised-host or port"
            )
        if elected is not None and identity is None:
            log.warning("no instance may become the primary")
        member = self._member
        is_self = (
            elected is not None and member is not None and elected.member_id == member.member_id
        )
        if identity is not None and identity != self.primary:
            log.info("the primary is %s%s", identity.url, " (this instance)" if is_self else "")
        with self._changed:
            self.primary, self._is_self = identity, is_self
            self.has_none = elected is not None and identity is None
            self.generation += elected is not None
            self._changed.notify_all()

    def _notify(self) -> None:
        """Wake those that wait for a confirmation."""
        with self._changed:
            self._changed.notify_all()
