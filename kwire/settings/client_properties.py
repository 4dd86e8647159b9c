"""The names of client properties, and the search for misspelt ones."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import SequenceMatcher
from typing import Final, NamedTuple

_NAMES: Final = """
    acks allow.auto.create.topics auto.commit.interval.ms auto.offset.reset batch.size
    bootstrap.controllers bootstrap.resolve.timeout.ms bootstrap.servers buffer.memory
    buffer.memory.allocation.strategy check.crcs client.dns.lookup client.id client.rack
    compression.gzip.level compression.lz4.level compression.type compression.zstd.level
    config.providers connections.max.idle.ms default.api.timeout.ms delivery.timeout.ms
    enable.auto.commit enable.idempotence enable.metrics.push exclude.internal.topics
    fetch.max.bytes fetch.max.wait.ms fetch.min.bytes group.id group.instance.id group.protocol
    group.remote.assignor heartbeat.interval.ms interceptor.classes
    internal.throw.on.fetch.stable.offset.unsupported isolation.level key.deserializer
    key.serializer linger.ms max.block.ms max.in.flight.requests.per.connection
    max.partition.fetch.bytes max.poll.interval.ms max.poll.records max.request.size
    metadata.cluster.check.enable metadata.max.age.ms metadata.max.idle.ms
    metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy metric.reporters
    metrics.num.samples metrics.recording.level metrics.sample.window.ms
    partition.assignment.strategy partitioner.adaptive.partitioning.enable
    partitioner.availability.timeout.ms partitioner.class partitioner.ignore.keys
    partitioner.rack.aware receive.buffer.bytes reconnect.backoff.max.ms reconnect.backoff.ms
    request.timeout.ms retries retry.backoff.max.ms retry.backoff.ms
    sasl.client.callback.handler.class sasl.jaas.config sasl.kerberos.kinit.cmd
    sasl.kerberos.min.time.before.relogin sasl.kerberos.service.name
    sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor
    sasl.login.callback.handler.class sasl.login.class sasl.login.connect.timeout.ms
    sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
    sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor
    sasl.login.refresh.window.jitter sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms
    sasl.mechanism sasl.oauthbearer.allow.unverified.audience
    sasl.oauthbearer.allow.unverified.issuer sasl.oauthbearer.assertion.algorithm
    sasl.oauthbearer.assertion.claim.aud sasl.oauthbearer.assertion.claim.exp.seconds
    sasl.oauthbearer.assertion.claim.iss sasl.oauthbearer.assertion.claim.jti.include
    sasl.oauthbearer.assertion.claim.nbf.seconds sasl.oauthbearer.assertion.claim.sub
    sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.private.key.file
    sasl.oauthbearer.assertion.private.key.passphrase sasl.oauthbearer.assertion.template.file
    sasl.oauthbearer.client.credentials.client.id
    sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.clock.skew.seconds
    sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer
    sasl.oauthbearer.header.urlencode sasl.oauthbearer.jwks.endpoint.refresh.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url
    sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class
    sasl.oauthbearer.scope sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name
    sasl.oauthbearer.token.endpoint.url security.protocol security.providers send.buffer.bytes
    session.timeout.ms share.acknowledgement.mode share.acquire.mode
    socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms ssl.cipher.suites
    ssl.enabled.protocols ssl.endpoint.identification.algorithm ssl.engine.factory.class
    ssl.key.password ssl.keymanager.algorithm ssl.keystore.certificate.chain ssl.keystore.key
    ssl.keystore.location ssl.keystore.password ssl.keystore.type ssl.protocol ssl.provider
    ssl.secure.random.implementation ssl.trustmanager.algorithm ssl.truststore.certificates
    ssl.truststore.location ssl.truststore.password ssl.truststore.type transaction.timeout.ms
    transaction.two.phase.commit.enable transactional.id value.deserializer value.serializer
"""

NAMES: Final = frozenset(_NAMES.split())
"""All properties of Apache Kafka 4.4's producer, consumer and admin client (`configNames()` of
their config classes)."""

_OF_LIBRDKAFKA: Final = """
    enable.ssl.certificate.verification metadata.broker.list sasl.password sasl.username
    ssl.ca.location ssl.ca.pem ssl.certificate.location ssl.certificate.pem ssl.crl.location
    ssl.curves.list ssl.key.location ssl.key.pem ssl.sigalgs.list
"""

OF_LIBRDKAFKA: Final = frozenset(_OF_LIBRDKAFKA.split())
"""librdkafka's names for security, which are correct in a file that both kinds of clients read.

`sasl.mechanisms` is not among them: Java clients ignore it and use GSSAPI without `sasl.mechanism`.
"""

SECURITY_PREFIXES: Final = ("security.", "ssl.", "sasl.")
SIMILARITY_MIN: Final = 0.8
"""The least similarity of two names that counts as a misspelling.  `security.protcol` is 0.97
similar to `security.protocol`; `ssl.ca.location` is 0.78 similar to `ssl.keystore.location`, which
is another property."""


class Misspelt(NamedTuple):
    """A property that no client reads, and the known property with the most similar name."""

    name: str
    nearest: str
    is_of_security: bool
    """Whether the known property is about security: without it a client may not encrypt."""


def misspelt(properties: Mapping[str, str]) -> list[Misspelt]:
    """Return the properties whose names are almost, but not exactly, names of Kafka's clients.

    Broker settings, librdkafka's names and known names after a prefix (`admin.` of Connect) are
    correct, since other tools may read the same file.
    """
    unknown = [name for name in properties if name not in NAMES | OF_LIBRDKAFKA]
    unknown = [name for name in unknown if not _is_prefixed(name)]
    if not unknown:
        return []
    from kwire.settings.broker import (
        BrokerConfig,  # slow to import, and only an unknown name needs it
    )

    unknown = [name for name in unknown if name not in BrokerConfig.DEFINITIONS]
    pairs = ((name, _nearest(name)) for name in unknown)
    return [
        Misspelt(name, nearest, nearest.startswith(SECURITY_PREFIXES))
        for name, nearest in pairs
        if nearest is not None
    ]


def _is_prefixed(name: str) -> bool:
    """Whether a part of the name after a dot is a known name."""
    words = name.split(".")
    return any(".".join(words[at:]) in NAMES for at in range(1, len(words)))


def _nearest(name: str) -> str | None:
    """Return the most similar known name, ignoring case, or None if no name is similar enough."""
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(name.lower())
    nearest, similarity = None, SIMILARITY_MIN
    for candidate in sorted(NAMES):
        matcher.set_seq1(candidate)
        if matcher.quick_ratio() > similarity and (ratio := matcher.ratio()) > similarity:
            nearest, similarity = candidate, ratio
    return nearest
