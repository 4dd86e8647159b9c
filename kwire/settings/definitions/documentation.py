"""What each setting does, for DescribeConfigs and docs/settings.md.

Every config of topics, groups and client metrics has a sentence.  A broker setting has one if it
acts here, or if its meaning here differs from Kafka's.  The documentation of a setting that does
nothing begins with the reason (`kwire.settings.effects`).  A broker setting that is the default of
a topic or group config has that config's sentence.
"""

from __future__ import annotations

from kwire.settings.broker import effect_of
from kwire.settings.client_metrics_settings import ClientMetricsSettings
from kwire.settings.definition import Settings
from kwire.settings.definitions.groups import GroupResourceSettings
from kwire.settings.definitions.topics import SYNONYMS as TOPIC_SYNONYMS
from kwire.settings.groups import SYNONYMS as GROUP_SYNONYMS
from kwire.settings.resources import ConfigResourceType
from kwire.settings.topic_settings import TopicSettings

TOPIC = {
    "cleanup.policy": "What happens to old segments: delete removes them by time and size, "
    "compact keeps the last record of each key. Both can be set.",
    "compression.gzip.level": "The level for compression.type=gzip; -1 is zlib's default.",
    "compression.lz4.level": "The level for compression.type=lz4.",
    "compression.type": "The codec that the broker stores batches with; producer keeps each batch "
    "as the producer compressed it.",
    "compression.zstd.level": "The level for compression.type=zstd.",
    "delete.retention.ms": "How long a compacted topic keeps a tombstone, the record that deletes "
    "a key.",
    "file.delete.delay.ms": "How long a deleted file stays on disk, under a name that ends in "
    ".deleted.",
    "flush.messages": "Number of appended records after which the log is flushed to disk.",
    "flush.ms": "The longest time before appended records are flushed to disk.",
    "follower.replication.throttled.replicas": "Followers whose replication is throttled, as "
    "partition:broker pairs, or * for all.",
    "index.interval.bytes": "Number of bytes of records between two entries of the offset index.",
    "leader.replication.throttled.replicas": "Replicas whose replication is throttled on the "
    "leader's side, as partition:broker pairs, or * for all.",
    "local.retention.bytes": "Number of bytes that tiered storage keeps on the local disk; -2 "
    "means retention.bytes.",
    "local.retention.ms": "How long tiered storage keeps segments on the local disk; -2 means "
    "retention.ms.",
    "max.compaction.lag.ms": "The longest time that a record stays uncompacted.",
    "max.message.bytes": "The largest record batch that the topic accepts, in bytes as the "
    "producer sent it.",
    "message.timestamp.after.max.ms": "How far a record's timestamp may be ahead of the broker's "
    "clock.",
    "message.timestamp.before.max.ms": "How far a record's timestamp may be behind the broker's "
    "clock.",
    "message.timestamp.type": "The timestamp that a record has: CreateTime is the producer's, "
    "LogAppendTime is the time of the append.",
    "min.cleanable.dirty.ratio": "The share of uncompacted bytes at which the cleaner compacts a "
    "log.",
    "min.compaction.lag.ms": "The shortest time that a record stays uncompacted.",
    "min.insync.replicas": "The number of in-sync replicas that acks=all needs. A topic with "
    "fewer replicas needs all of them.",
    "preallocate": "Whether the file of a new segment gets its full size at once.",
    "remote.log.copy.disable": "Whether segments are no longer copied to tiered storage; those "
    "already copied stay readable.",
    "remote.log.delete.on.disable": "Whether the data in tiered storage is deleted when tiered "
    "storage is turned off.",
    "remote.storage.enable": "Whether the topic uses tiered storage.",
    "retention.bytes": "Size of a partition above which its oldest segments are deleted; -1 means "
    "no limit.",
    "retention.ms": "Age above which segments are deleted; -1 means no limit.",
    "segment.bytes": "Size at which the log starts a new segment.",
    "segment.index.bytes": "The largest size of a segment's index; the log starts a new segment "
    "when the index is full.",
    "segment.jitter.ms": "A segment starts up to this much earlier than segment.ms says, by a "
    "random time, so that not all logs start one at once.",
    "segment.ms": "Age at which the log starts a new segment even if the current one is not full.",
    "unclean.leader.election.enable": "Whether a replica that is not in sync can become leader "
    "when no in-sync replica is available. Records may be lost.",
}

GROUP = {
    "consumer.assignment.interval.ms": "The shortest time between two assignments of a consumer "
    "group.",
    "consumer.heartbeat.interval.ms": "How often the members of a consumer group send heartbeats.",
    "consumer.session.timeout.ms": "How long a member of a consumer group may send no heartbeat "
    "before the group removes it.",
    "share.assignment.interval.ms": "The shortest time between two assignments of a share group.",
    "share.auto.offset.reset": "Where a share group starts to read: latest, earliest, or "
    "by_duration: followed by how long ago.",
    "share.delivery.count.limit": "How often a share group delivers a record before it gives the "
    "record up.",
    "share.heartbeat.interval.ms": "How often the members of a share group send heartbeats.",
    "share.isolation.level": "Whether a share group reads records of open and aborted "
    "transactions (read_uncommitted) or only committed records (read_committed).",
    "share.partition.max.record.locks": "The number of records of one partition that may be "
    "acquired at the same time.",
    "share.record.lock.duration.ms": "How long a member holds the acquisition lock on a record.",
    "share.renew.acknowledge.enable": "Whether members may renew their acquisition locks.",
    "share.session.timeout.ms": "How long a member of a share group may send no heartbeat before "
    "the group removes it.",
    "streams.assignment.interval.ms": "The shortest time between two assignments of a streams "
    "group.",
    "streams.heartbeat.interval.ms": "How often the members of a streams group send heartbeats.",
    "streams.initial.rebalance.delay.ms": "How long a new streams group waits for more members.",
    "streams.num.standby.replicas": "The number of standby copies of each task's state.",
    "streams.session.timeout.ms": "How long a member of a streams group may send no heartbeat "
    "before the group removes it.",
}

BROKER = {
    "add.partitions.to.txn.retry.backoff.max.ms": "How long the first batch of a transaction may "
    "wait until the producer's previous transaction has ended.",
    "add.partitions.to.txn.retry.backoff.ms": "How long the broker waits before it asks the "
    "coordinator again whether that transaction has ended.",
    "advertised.listeners": "The addresses that clients connect to, by listener. A listener that "
    "is not named here advertises its address in listeners.",
    "authorizer.class.name": (
        "The authorizer that checks each request against access control "
        "lists: Apache Kafka's StandardAuthorizer, with `super.users` and "
        "`allow.everyone.if.no.acl.found`, or 3.9's AclAuthorizer in a cluster on ZooKeeper. "
        "Empty: nothing is checked, everybody may do everything."
    ),
    "auto.create.topics.enable": "Whether the broker creates an unknown topic when a client asks "
    "for its metadata.",
    "alter.log.dirs.replication.quota.window.num": "The number of time windows over which "
    "replica.alter.log.dirs.io.max.bytes.per.second is measured, for copies between log "
    "directories.",
    "alter.log.dirs.replication.quota.window.size.seconds": "The length of each of these windows.",
    "auto.leader.rebalance.enable": "Whether the controller elects the preferred leaders again "
    "when other brokers lead too many of a broker's partitions.",
    "broker.id": "The former name of node.id.",
    "broker.rack": "The rack of the broker. Replicas of a partition are spread over racks.",
    "connection.failed.authentication.delay.ms": "How long the broker delays its response to a "
    "failed login.",
    "connections.max.reauth.ms": "How long a SASL login is valid; 0 means for ever.",
    "connections.max.idle.ms": "How long a connection may be idle before the broker closes it.",
    "controller.listener.names": "Listeners of a KRaft controller. The broker does not open them.",
    "controller.quota.window.num": "The number of time windows over which "
    "`controller_mutation_rate` is measured, the quota for partitions that clients create and "
    "delete.",
    "controller.quota.window.size.seconds": "The length of each of these windows.",
    "controller.socket.timeout.ms": "How long the controller waits for a broker's response, and a "
    "broker for the controller's.",
    "controlled.shutdown.enable": "Whether a broker that stops first hands over the leadership of "
    "its partitions.",
    "default.replication.factor": "The number of replicas of a new topic whose creator does not "
    "give one.",
    "delete.topic.enable": "Whether topics can be deleted.",
    "fetch.max.bytes": "The largest size of a Fetch response, in bytes.",
    "group.consumer.assignors": "The assignors that members of a consumer group may choose "
    "(`uniform`, `range`). The first is used if no member chooses one.",
    "group.consumer.max.assignment.interval.ms": "The largest allowed value of "
    "`consumer.assignment.interval.ms`.",
    "group.consumer.max.heartbeat.interval.ms": "The largest allowed value of "
    "`consumer.heartbeat.interval.ms`.",
    "group.consumer.max.session.timeout.ms": "The largest allowed value of "
    "`consumer.session.timeout.ms`.",
    "group.consumer.max.size": "The largest number of members of a consumer group.",
    "group.consumer.min.assignment.interval.ms": "The smallest allowed value of "
    "`consumer.assignment.interval.ms`.",
    "group.consumer.migration.policy": "How a group with members may change its protocol: "
    "`upgrade` changes it to the consumer protocol when the first member with that protocol "
    "joins, `downgrade` changes it to the classic protocol when the last such member leaves.",
    "group.consumer.min.heartbeat.interval.ms": "The smallest allowed value of "
    "`consumer.heartbeat.interval.ms`.",
    "group.consumer.min.session.timeout.ms": "The smallest allowed value of "
    "`consumer.session.timeout.ms`.",
    "group.coordinator.rebalance.protocols": "The group protocols that the broker serves. Without "
    "`consumer` it has no groups of KIP-848.",
    "group.initial.rebalance.delay.ms": "How long a new classic group waits for more members.",
    "group.max.session.timeout.ms": "The longest session timeout that a member of a classic group "
    "may have.",
    "group.max.size": "The largest number of members of a classic group.",
    "group.min.session.timeout.ms": "The shortest session timeout that a member of a classic "
    "group may have.",
    "group.share.delivery.count.limit": "How often a record is delivered before the share group "
    "gives it up, for groups without share.delivery.count.limit.",
    "group.share.max.assignment.interval.ms": "The largest allowed value of "
    "`share.assignment.interval.ms`.",
    "group.share.max.delivery.count.limit": "The largest allowed value of "
    "`share.delivery.count.limit`.",
    "group.share.max.heartbeat.interval.ms": "The largest allowed value of "
    "`share.heartbeat.interval.ms`.",
    "group.share.max.partition.max.record.locks": "The largest allowed value of "
    "`share.partition.max.record.locks`.",
    "group.share.max.record.lock.duration.ms": "The largest allowed value of "
    "`share.record.lock.duration.ms`.",
    "group.share.max.session.timeout.ms": "The largest allowed value of "
    "`share.session.timeout.ms`.",
    "group.share.max.share.sessions": "The largest number of share sessions, that is of members "
    "of share groups that read at the same time.",
    "group.share.max.size": "The largest number of members of a share group.",
    "group.share.min.assignment.interval.ms": "The smallest allowed value of "
    "`share.assignment.interval.ms`.",
    "group.share.min.delivery.count.limit": "The smallest allowed value of "
    "`share.delivery.count.limit`.",
    "group.share.min.heartbeat.interval.ms": "The smallest allowed value of "
    "`share.heartbeat.interval.ms`.",
    "group.share.min.partition.max.record.locks": "The smallest allowed value of "
    "`share.partition.max.record.locks`.",
    "group.share.min.record.lock.duration.ms": "The smallest allowed value of "
    "`share.record.lock.duration.ms`.",
    "group.share.min.session.timeout.ms": "The smallest allowed value of "
    "`share.session.timeout.ms`.",
    "group.streams.max.assignment.interval.ms": "The largest allowed value of "
    "`streams.assignment.interval.ms`.",
    "group.streams.max.heartbeat.interval.ms": "The largest allowed value of "
    "`streams.heartbeat.interval.ms`.",
    "group.streams.max.session.timeout.ms": "The largest allowed value of "
    "`streams.session.timeout.ms`.",
    "group.streams.max.size": "The largest number of members of a streams group.",
    "group.streams.max.standby.replicas": "The largest allowed value of "
    "`streams.num.standby.replicas`.",
    "group.streams.min.assignment.interval.ms": "The smallest allowed value of "
    "`streams.assignment.interval.ms`.",
    "group.streams.min.heartbeat.interval.ms": "The smallest allowed value of "
    "`streams.heartbeat.interval.ms`.",
    "group.streams.min.session.timeout.ms": "The smallest allowed value of "
    "`streams.session.timeout.ms`.",
    "inter.broker.listener.name": "The listener that brokers use between each other. "
    "max.connections never blocks it.",
    "leader.imbalance.check.interval.seconds": "How often the controller checks whether preferred "
    "leaders have to be elected.",
    "listener.security.protocol.map": "The security protocol of each listener, as "
    "LISTENER:PROTOCOL,LISTENER:PROTOCOL.",
    "listeners": "The addresses that the broker listens on, as LISTENER://host:port.",
    "log.cleaner.backoff.ms": "How long the cleaner sleeps when no log needs compaction.",
    "log.cleaner.dedupe.buffer.size": "Memory for the keys of the logs that are being compacted, "
    "in bytes, for all cleaner threads together.",
    "log.cleaner.enable": "Whether the cleaner compacts topics with cleanup.policy=compact.",
    "log.cleaner.io.buffer.size": "Memory for reading logs during compaction, in bytes, for all "
    "cleaner threads together.",
    "log.cleaner.io.max.bytes.per.second": "The most bytes that compaction reads and writes in a "
    "second.",
    "log.cleaner.threads": "The number of logs that the cleaner compacts at the same time.",
    "log.dir": "The log directory, if log.dirs is not set.",
    "log.dirs": "The log directories, which hold the partitions.",
    "log.flush.offset.checkpoint.interval.ms": "How often the broker writes the recovery points "
    "of its logs, the offsets up to which they are on disk.",
    "log.flush.start.offset.checkpoint.interval.ms": "How often the broker writes the log start "
    "offsets to disk.",
    "log.retention.check.interval.ms": "How often the broker looks for segments to delete.",
    "max.connections": "The largest number of connections at the same time.",
    "max.connection.creation.rate": "The largest number of new connections in a second, measured "
    "over ten seconds.",
    "max.connections.per.ip": "The largest number of connections at the same time from one "
    "address.",
    "max.connections.per.ip.overrides": "Other limits for single addresses, as "
    "host:count,host:count.",
    "max.incremental.fetch.session.cache.slots": "The largest number of fetch sessions that the "
    "broker keeps.",
    "max.request.partition.size.limit": "The largest number of partitions in one "
    "DescribeTopicPartitions response.",
    "node.id": "The broker's id in its cluster.",
    "num.replica.fetchers": "The number of connections to each leader that a follower fetches "
    "over.",
    "num.partitions": "The number of partitions of a new topic whose creator does not give one.",
    "offset.metadata.max.bytes": "The largest size of the metadata that a client stores with a "
    "committed offset.",
    "offsets.commit.timeout.ms": "How long the group coordinator waits until a record of its log "
    "is replicated.",
    "offsets.retention.check.interval.ms": "How often the coordinator looks for expired offsets.",
    "offsets.retention.minutes": "How long the offsets of an empty group are kept.",
    "offsets.topic.compression.codec": "The compression codec of the topic of committed offsets: "
    "0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
    "offsets.topic.num.partitions": "The number of partitions of the topic of committed offsets.",
    "offsets.topic.replication.factor": "The number of replicas of the topic of committed "
    "offsets; by default not more than there are brokers.",
    "offsets.topic.segment.bytes": "Segment size of the topic of committed offsets.",
    "process.roles": "The roles of a KRaft node. kwire needs the broker role and ignores "
    "controller.",
    "producer.id.expiration.check.interval.ms": "How often the broker looks for producers that "
    "have expired.",
    "producer.id.expiration.ms": "How long the broker keeps the last sequence numbers of a "
    "producer that no longer writes.",
    "queued.max.request.bytes": "The most memory for requests that are being received, in bytes; "
    "-1 means no limit.",
    "replica.fetch.backoff.ms": "How long a follower waits before it fetches a partition again "
    "after an error.",
    "replica.fetch.max.bytes": "The most bytes of one partition that a follower requests in one "
    "Fetch.",
    "replica.fetch.min.bytes": "The fewest bytes that a leader waits for before it answers a "
    "follower.",
    "replica.fetch.response.max.bytes": "The most bytes that a follower requests in one Fetch.",
    "replica.fetch.wait.max.ms": "How long a leader may wait for replica.fetch.min.bytes before "
    "it answers a follower.",
    "replica.high.watermark.checkpoint.interval.ms": "How often the broker writes its high "
    "watermarks to disk.",
    "replica.lag.time.max.ms": "How long a follower may be behind the leader's log end offset "
    "before it leaves the in-sync replicas.",
    "replica.selector.class": "Which replica consumers read from: "
    "`org.apache.kafka.common.replica.RackAwareReplicaSelector` directs a consumer with a "
    "`client.rack` to an in-sync replica in that rack. Empty: from the leader.",
    "replica.socket.receive.buffer.bytes": "The receive buffer of a follower's connection to a "
    "leader; by default the system's size.",
    "replica.socket.timeout.ms": "How long a follower waits for a leader's response.",
    "request.timeout.ms": "How long the transaction coordinator waits until a record of its log "
    "is replicated, and a broker waits for another broker's response, replication excepted.",
    "quota.window.num": "The number of time windows over which client quotas are measured.",
    "quota.window.size.seconds": "The length of each of these windows.",
    "replication.quota.window.num": "The number of time windows over which throttled replication "
    "is measured.",
    "replication.quota.window.size.seconds": "The length of each of these windows.",
    "share.coordinator.snapshot.update.records.per.snapshot": "The number of changes of a share "
    "partition that the share coordinator writes before it writes the whole state again.",
    "share.coordinator.state.topic.compression.codec": "The compression codec of the topic of "
    "share state: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
    "share.coordinator.state.topic.min.isr": "min.insync.replicas of the topic of share state.",
    "share.coordinator.state.topic.num.partitions": "The number of partitions of the topic of "
    "share state.",
    "share.coordinator.state.topic.replication.factor": "The number of replicas of the topic of "
    "share state; by default not more than there are brokers.",
    "share.coordinator.state.topic.segment.bytes": "Segment size of the topic of share state.",
    "sasl.enabled.mechanisms": "The SASL mechanisms that clients may log in with: PLAIN, "
    "SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER. Tokens of OAUTHBEARER are unsigned unless "
    "sasl.server.callback.handler.class says otherwise.",
    "sasl.jaas.config": "The users and secrets of a mechanism, as one line of JAAS. Set it as "
    "listener.name.LISTENER.MECHANISM.sasl.jaas.config.",
    "sasl.login.callback.handler.class": "Apache Kafka's OAuthBearerLoginCallbackHandler is "
    "allowed for OAUTHBEARER between brokers, and changes nothing: a broker gets its tokens from "
    "sasl.oauthbearer.token.endpoint.url if that is set.",
    "sasl.login.refresh.window.factor": "The part of a token's lifetime after which a broker gets "
    "a new token for its logins at other brokers.",
    "sasl.mechanism.inter.broker.protocol": "The SASL mechanism by which a broker logs in to "
    "other brokers, with the name and password in that mechanism's sasl.jaas.config, or with a "
    "token for OAUTHBEARER.",
    "sasl.oauthbearer.client.credentials.client.id": "The client id with which a broker requests "
    "a token; by default the option clientId of sasl.jaas.config.",
    "sasl.oauthbearer.client.credentials.client.secret": "The password with which a broker "
    "requests a token; by default the option clientSecret of sasl.jaas.config.",
    "sasl.oauthbearer.clock.skew.seconds": "How far the clock of the token's issuer may differ "
    "from the broker's.",
    "sasl.oauthbearer.expected.audience": "The audiences that a signed token may be for. A token "
    "that names other audiences is refused.",
    "sasl.oauthbearer.expected.issuer": "The issuer that a signed token must have.",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": "How often the broker fetches the keys that sign "
    "tokens.",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": "How long the broker retries when it "
    "cannot fetch the keys. It uses the keys that it has meanwhile.",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": "How long the broker waits before the "
    "first retry; each further wait is twice as long.",
    "sasl.oauthbearer.jwks.endpoint.url": "The location of the keys that sign tokens (JWKS): an "
    "http:, https: or file: URL. The broker reads a file again when it changes.",
    "sasl.oauthbearer.scope": "The scope that a broker requests for its token; by default the "
    "option scope of sasl.jaas.config.",
    "sasl.oauthbearer.scope.claim.name": "The claim of a signed token that holds its scopes.",
    "sasl.oauthbearer.sub.claim.name": "The claim of a signed token that holds the name of the "
    "principal.",
    "sasl.oauthbearer.token.endpoint.url": "Where a broker gets the token for its logins at other "
    "brokers: a file: URL, or the http: or https: URL of a server that returns a token for client "
    "credentials. If it is not set the broker uses an unsigned token.",
    "sasl.server.callback.handler.class": "How OAUTHBEARER checks tokens: Apache Kafka's "
    "OAuthBearerValidatorCallbackHandler for signed tokens, or its unsecured handler for unsigned "
    "ones.",
    "delegation.token.expiry.check.interval.ms": "How often the broker deletes expired delegation "
    "tokens.",
    "delegation.token.expiry.time.ms": "How long a delegation token is valid unless it is renewed.",
    "delegation.token.max.lifetime.ms": "The longest time that a delegation token can be valid, "
    "renewals included.",
    "delegation.token.secret.key": "The secret from which delegation tokens are made, the same on "
    "all brokers. If it is not set there are no delegation tokens.",
    "sasl.server.max.receive.size": "The largest request that a client may send before it has "
    "logged in, in bytes.",
    "security.inter.broker.protocol": "The listener that brokers use between each other, if "
    "inter.broker.listener.name is not set.",
    "share.coordinator.write.timeout.ms": "How long the share coordinator waits until a record of "
    "its log is replicated.",
    "socket.connection.setup.timeout.ms": "How long a broker waits for a connection to another "
    "broker.",
    "socket.listen.backlog.size": "The number of connections that the kernel queues until the "
    "broker accepts them. kwire uses 4096 if it is not set; the kernel allows no more than "
    "net.core.somaxconn.",
    "socket.receive.buffer.bytes": "The receive buffer of each socket; -1 means the system's "
    "default.",
    "socket.request.max.bytes": "The largest request that the broker accepts, in bytes.",
    "socket.send.buffer.bytes": "The send buffer of each socket; -1 means the system's default.",
    "ssl.allow.dn.changes": "Whether a new certificate may have another distinguished name than "
    "the one it replaces.",
    "ssl.allow.san.changes": "Whether a new certificate may lack alternative names that the one "
    "it replaces has.",
    "ssl.cipher.suites": "The allowed cipher suites, by Java's names; by default all that OpenSSL "
    "has. Python before 3.15 cannot disable suites of TLS 1.3; a connection that uses a suite "
    "that is not allowed is closed.",
    "ssl.client.auth": "Whether the broker asks clients for a certificate: none, requested, or "
    "required. On a SASL_SSL listener it acts only if it is set for that listener.",
    "ssl.enabled.protocols": "The TLS versions that the broker serves: TLSv1.2 and TLSv1.3. Older "
    "versions may be listed and are never served.",
    "ssl.endpoint.identification.algorithm": "`https` compares the host name with the certificate "
    "of the other broker; empty accepts a certificate for any name.",
    "ssl.key.password": "The password of the private key, if the key has one of its own.",
    "ssl.keystore.certificate.chain": "The broker's certificate and the certificates of its "
    "issuers, PEM.",
    "ssl.keystore.key": "The broker's private key, PEM, PKCS#8.",
    "ssl.keystore.location": "The file with the private key and the certificates. The broker "
    "reads it again when it changes.",
    "ssl.keystore.password": "The password of that file, if it is JKS or PKCS12.",
    "ssl.keystore.type": "The format of that file: PEM, JKS or PKCS12. The broker tells JKS from "
    "PKCS12 by the file itself.",
    "ssl.principal.mapping.rules": "Rules that turn the name in a client's certificate into its "
    "principal.",
    "ssl.protocol": "A TLS version. ssl.enabled.protocols says which versions the broker serves.",
    "ssl.truststore.certificates": "The certificates of the issuers whose client certificates the "
    "broker trusts, PEM.",
    "ssl.truststore.location": "The file with those certificates. The broker reads it again when "
    "it changes.",
    "ssl.truststore.password": "The password of that file. A JKS file can be read without it.",
    "ssl.truststore.type": "The format of that file: PEM, JKS or PKCS12, as for ssl.keystore.type.",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "How often the coordinator "
    "looks for transactions that have timed out.",
    "telemetry.max.bytes": "The largest payload of client metrics that the broker accepts, in "
    "bytes, both compressed and decompressed.",
    "transaction.max.timeout.ms": "The longest transaction timeout that a producer may request.",
    "transaction.partition.verification.enable": "Whether a partition's leader asks the "
    "coordinator about a transaction before it appends the transaction's first batch (KIP-890).",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "How often the coordinator "
    "looks for transactional ids that have expired.",
    "transaction.state.log.min.isr": "min.insync.replicas of the topic of transaction state.",
    "transaction.state.log.num.partitions": "The number of partitions of the topic of transaction "
    "state.",
    "transaction.state.log.replication.factor": "The number of replicas of the topic of "
    "transaction state; by default not more than there are brokers.",
    "transaction.state.log.segment.bytes": "Segment size of the topic of transaction state.",
    "transactional.id.expiration.ms": "How long the coordinator keeps a transactional id that no "
    "producer uses.",
}

BROKER.update(
    (synonym.name, TOPIC[name]) for name, synonyms in TOPIC_SYNONYMS.items() for synonym in synonyms
)
BROKER.update((synonym, GROUP[name]) for name, synonym in GROUP_SYNONYMS.items())

CLIENT_METRICS = {
    "interval.ms": "How often the clients push their metrics.",
    "match": "The clients that the subscription is for, as name=regex. A client must match all of "
    "them.",
    "metrics": "Prefixes of the names of the metrics that clients push; * means all metrics.",
}

_SETTINGS: dict[ConfigResourceType, type[Settings]] = {
    ConfigResourceType.TOPIC: TopicSettings,
    ConfigResourceType.GROUP: GroupResourceSettings,
    ConfigResourceType.CLIENT_METRICS: ClientMetricsSettings,
}

_BY_RESOURCE = {
    ConfigResourceType.TOPIC: TOPIC,
    ConfigResourceType.BROKER: BROKER,
    ConfigResourceType.GROUP: GROUP,
    ConfigResourceType.CLIENT_METRICS: CLIENT_METRICS,
}


def documentation_of(resource_type: int, name: str) -> str | None:
    """The documentation of a config of a resource, or None if it has none."""
    kind = ConfigResourceType(resource_type)
    if kind is ConfigResourceType.BROKER_LOGGER:
        return None
    sentence = _BY_RESOURCE[kind].get(name)
    if kind is ConfigResourceType.BROKER:
        effect = effect_of(name)
    else:
        effect = _SETTINGS[kind].DEFINITIONS[name].effect
    if effect.acts:
        return sentence
    note = f"{effect.note[0].upper()}{effect.note[1:]}."
    return f"{note} {sentence}" if sentence else note


ZOOKEEPER = {
    "controlled.shutdown.max.retries": "How often a broker that stops asks the controller again "
    "to move the leadership of its partitions. All attempts and pauses together take "
    "controller.socket.timeout.ms at most.",
    "controlled.shutdown.retry.backoff.ms": "How long it waits before it asks again. Apache "
    "Kafka's default is 5000.",
    "zookeeper.connect": "The ZooKeeper servers as host:port,host:port, and a chroot after the "
    "last if the cluster has one. The broker is a member of the cluster there.",
    "zookeeper.connection.timeout.ms": "How long the broker waits until ZooKeeper is connected; "
    "by default zookeeper.session.timeout.ms.",
    "zookeeper.session.timeout.ms": "How long ZooKeeper waits for a silent broker before it ends "
    "the broker's session.",
    "zookeeper.set.acl": "Whether only brokers may change the znodes that they create.",
    "zookeeper.ssl.client.enable": "Whether the connection to ZooKeeper uses TLS.",
    "zookeeper.ssl.endpoint.identification.algorithm": "HTTPS compares the server's host name "
    "with its certificate; empty does not.",
    "zookeeper.ssl.keystore.location": "A PEM file with the broker's key and its certificates.",
    "zookeeper.ssl.keystore.password": "The password of the private key.",
    "zookeeper.ssl.keystore.type": "PEM. The broker cannot read other formats.",
    "zookeeper.ssl.truststore.location": "A PEM file with the certificates of the issuers that "
    "the broker trusts.",
    "zookeeper.ssl.truststore.type": "PEM. The broker cannot read other formats.",
}
