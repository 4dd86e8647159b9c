"""What each config does, in a sentence, for DescribeConfigs and for whoever reads its answer.

Topic and group configs are all here; of the broker's settings those that this broker acts on, or
whose meaning here is not Kafka's.  What a setting that does nothing would do is told behind the
reason (`kwire.settings.effects`).  A setting that is the default of a topic or group config shares
that one's sentence.
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
    "cleanup.policy": "What becomes of old segments: delete removes them by time and size, "
    "compact keeps the last record of every key; both may be given.",
    "compression.gzip.level": "The level for compression.type=gzip, -1 for zlib's default.",
    "compression.lz4.level": "The level for compression.type=lz4.",
    "compression.type": "The codec that batches are stored with; producer leaves them as sent.",
    "compression.zstd.level": "The level for compression.type=zstd.",
    "delete.retention.ms": "How long a compacted topic keeps the record that deletes a key.",
    "file.delete.delay.ms": "How long a removed file stays on disk under another name.",
    "flush.messages": "Records appended before the log is forced to disk.",
    "flush.ms": "The longest time before appended records are forced to disk.",
    "follower.replication.throttled.replicas": "Replicas that are throttled while they follow: "
    "partition:broker pairs, or * for all.",
    "index.interval.bytes": "Bytes of records between two entries of the offset index.",
    "leader.replication.throttled.replicas": "Replicas that are throttled while they lead: "
    "partition:broker pairs, or * for all.",
    "local.retention.bytes": "Size kept on local disk with tiered storage, -2 for retention.bytes.",
    "local.retention.ms": "Time kept on local disk with tiered storage, -2 for retention.ms.",
    "max.compaction.lag.ms": "The longest time a record may stay uncompacted.",
    "max.message.bytes": "The largest record batch that is taken, as sent.",
    "message.timestamp.after.max.ms": "How far in the future a record's own timestamp may be.",
    "message.timestamp.before.max.ms": "How far in the past a record's own timestamp may be.",
    "message.timestamp.type": "Whether a record's timestamp is the producer's or the time of the "
    "append.",
    "min.cleanable.dirty.ratio": "The share of uncompacted bytes from which a log is compacted.",
    "min.compaction.lag.ms": "The shortest time a record stays uncompacted.",
    "min.insync.replicas": "In-sync replicas that acks=all needs, but never more than there are "
    "replicas.",
    "preallocate": "Whether a new segment's file is made at its full size.",
    "remote.log.copy.disable": "Stops copying to tiered storage and leaves what is there readable.",
    "remote.log.delete.on.disable": "Deletes the tiered data when tiered storage is turned off.",
    "remote.storage.enable": "Tiered storage for the topic.",
    "retention.bytes": "Size of a partition above which its oldest segments are removed, -1 for "
    "no limit.",
    "retention.ms": "Age above which segments are removed, -1 for no limit.",
    "segment.bytes": "Size at which a segment is closed and the next one begun.",
    "segment.index.bytes": "The largest size of a segment's index; when it is full the segment is "
    "closed.",
    "segment.jitter.ms": "A random time by which segment.ms is cut short, so that not all logs "
    "begin a segment at once.",
    "segment.ms": "Age at which a segment is closed even if it is not full.",
    "unclean.leader.election.enable": "Whether a replica that is not in sync may lead when no "
    "other can; records may be lost.",
}

GROUP = {
    "consumer.assignment.interval.ms": "The shortest time between two assignments of a consumer "
    "group.",
    "consumer.heartbeat.interval.ms": "How often members of a consumer group report.",
    "consumer.session.timeout.ms": "How long a member of a consumer group may be silent.",
    "share.assignment.interval.ms": "The shortest time between two assignments of a share group.",
    "share.auto.offset.reset": "Where a share group begins: latest, earliest, or by_duration: and "
    "how far back.",
    "share.delivery.count.limit": "How often a record is delivered before it is given up.",
    "share.heartbeat.interval.ms": "How often members of a share group report.",
    "share.isolation.level": "Whether a share group is given records of open transactions.",
    "share.partition.max.record.locks": "Records of a partition that may be held at once.",
    "share.record.lock.duration.ms": "How long a delivered record is held for its member.",
    "share.renew.acknowledge.enable": "Whether members may prolong the time a record is held.",
    "share.session.timeout.ms": "How long a member of a share group may be silent.",
    "streams.assignment.interval.ms": "The shortest time between two assignments of a streams "
    "group.",
    "streams.heartbeat.interval.ms": "How often members of a streams group report.",
    "streams.initial.rebalance.delay.ms": "How long a new streams group waits for more members.",
    "streams.num.standby.replicas": "Standby copies of each task's state.",
    "streams.session.timeout.ms": "How long a member of a streams group may be silent.",
}

BROKER = {
    "add.partitions.to.txn.retry.backoff.max.ms": "How long the first batch of a transaction may "
    "wait while the one before it is ended.",
    "add.partitions.to.txn.retry.backoff.ms": "How long it waits before it asks again.",
    "advertised.listeners": "The addresses that clients are told to connect to, by listener; "
    "those of listeners where not given.",
    "authorizer.class.name": (
        "Have every request checked against access control lists: Apache Kafka's "
        "StandardAuthorizer, with `super.users` and `allow.everyone.if.no.acl.found`, or 3.9's "
        "AclAuthorizer in a cluster on ZooKeeper. Empty: everybody may do everything."
    ),
    "auto.create.topics.enable": "Whether a topic is made when a client asks about it.",
    "alter.log.dirs.replication.quota.window.num": "Windows of time by which copying between log "
    "directories keeps to replica.alter.log.dirs.io.max.bytes.per.second.",
    "alter.log.dirs.replication.quota.window.size.seconds": "How long each of them is.",
    "auto.leader.rebalance.enable": "Whether the preferred replicas are made leaders again, where "
    "too many of a broker's partitions are led by others.",
    "broker.id": "Another name of node.id.",
    "broker.rack": "Where the broker is; replicas are spread over racks.",
    "connection.failed.authentication.delay.ms": "How long a failed login is left without an "
    "answer.",
    "connections.max.reauth.ms": "How long a login by SASL holds; 0 is for ever.",
    "connections.max.idle.ms": "How long a connection may be idle before it is closed.",
    "controller.listener.names": "Listeners of a KRaft controller; they are left out.",
    "controller.quota.window.num": "Windows of time whose partitions a client may make at once, of "
    "those that its `controller_mutation_rate` allows.",
    "controller.quota.window.size.seconds": "How long each of them is.",
    "controller.socket.timeout.ms": "How long the controller waits for a broker's answer, and a "
    "broker for the controller's.",
    "controlled.shutdown.enable": "Whether a broker that is stopped has others lead what it leads "
    "before it goes.",
    "default.replication.factor": "Replicas of a topic that is made without saying how many.",
    "delete.topic.enable": "Whether topics can be deleted.",
    "fetch.max.bytes": "The most bytes that one fetch response holds.",
    "group.consumer.assignors": "The assignors that members of a consumer group may ask for "
    "(`uniform`, `range`); the first is used where none does.",
    "group.consumer.max.assignment.interval.ms": "The most that `consumer.assignment.interval.ms` "
    "may be.",
    "group.consumer.max.heartbeat.interval.ms": "The most that `consumer.heartbeat.interval.ms` "
    "may be.",
    "group.consumer.max.session.timeout.ms": "The most that `consumer.session.timeout.ms` may be.",
    "group.consumer.max.size": "The most members that a consumer group may have.",
    "group.consumer.min.assignment.interval.ms": "The least that `consumer.assignment.interval.ms` "
    "may be.",
    "group.consumer.migration.policy": "How a group with members may change its protocol: `upgrade`"
    " to the consumer one when the first such member joins, `downgrade` when the last is gone.",
    "group.consumer.min.heartbeat.interval.ms": "The least that `consumer.heartbeat.interval.ms` "
    "may be.",
    "group.consumer.min.session.timeout.ms": "The least that `consumer.session.timeout.ms` may be.",
    "group.coordinator.rebalance.protocols": "The protocols of groups that are served; without "
    "`consumer` there are none of KIP-848.",
    "group.initial.rebalance.delay.ms": "How long a new classic group waits for more members.",
    "group.max.session.timeout.ms": "The longest session timeout of a classic group's member.",
    "group.max.size": "The most members of a classic group.",
    "group.min.session.timeout.ms": "The shortest session timeout of a classic group's member.",
    "group.share.delivery.count.limit": "How often a share group's record is delivered before it "
    "is given up, where the group does not say.",
    "group.share.max.assignment.interval.ms": "The most that `share.assignment.interval.ms` "
    "may be.",
    "group.share.max.delivery.count.limit": "The most that `share.delivery.count.limit` may be.",
    "group.share.max.heartbeat.interval.ms": "The most that `share.heartbeat.interval.ms` may be.",
    "group.share.max.partition.max.record.locks": "The most that "
    "`share.partition.max.record.locks` may be.",
    "group.share.max.record.lock.duration.ms": "The most that `share.record.lock.duration.ms` may "
    "be.",
    "group.share.max.session.timeout.ms": "The most that `share.session.timeout.ms` may be.",
    "group.share.max.share.sessions": "The most members of share groups that may read at one time.",
    "group.share.max.size": "The most members that a share group may have.",
    "group.share.min.assignment.interval.ms": "The least that `share.assignment.interval.ms` "
    "may be.",
    "group.share.min.delivery.count.limit": "The least that `share.delivery.count.limit` may be.",
    "group.share.min.heartbeat.interval.ms": "The least that `share.heartbeat.interval.ms` may be.",
    "group.share.min.partition.max.record.locks": "The least that "
    "`share.partition.max.record.locks` may be.",
    "group.share.min.record.lock.duration.ms": "The least that `share.record.lock.duration.ms` "
    "may be.",
    "group.share.min.session.timeout.ms": "The least that `share.session.timeout.ms` may be.",
    "group.streams.max.assignment.interval.ms": "The most that `streams.assignment.interval.ms` "
    "may be.",
    "group.streams.max.heartbeat.interval.ms": "The most that `streams.heartbeat.interval.ms` "
    "may be.",
    "group.streams.max.session.timeout.ms": "The most that `streams.session.timeout.ms` may be.",
    "group.streams.max.size": "The most members that a streams group may have.",
    "group.streams.max.standby.replicas": "The most that `streams.num.standby.replicas` may be.",
    "group.streams.min.assignment.interval.ms": "The least that `streams.assignment.interval.ms` "
    "may be.",
    "group.streams.min.heartbeat.interval.ms": "The least that `streams.heartbeat.interval.ms` "
    "may be.",
    "group.streams.min.session.timeout.ms": "The least that `streams.session.timeout.ms` may be.",
    "inter.broker.listener.name": "The listener that brokers talk to each other by; "
    "max.connections leaves it open.",
    "leader.imbalance.check.interval.seconds": "How often that is looked at.",
    "listener.security.protocol.map": "Listener names and the security protocol of each.",
    "listeners": "The addresses to listen on, as NAME://host:port.",
    "log.cleaner.backoff.ms": "How long the cleaner rests where nothing is to be compacted.",
    "log.cleaner.dedupe.buffer.size": "Memory for the keys of what is compacted, of all threads.",
    "log.cleaner.enable": "Whether compacted topics are compacted.",
    "log.cleaner.io.buffer.size": "How much is read at a time for compaction, of all threads.",
    "log.cleaner.io.max.bytes.per.second": "The most that compaction reads and writes a second.",
    "log.cleaner.threads": "Logs that are compacted at the same time.",
    "log.dir": "The log directory where log.dirs is not given.",
    "log.dirs": "The directories that hold the partitions.",
    "log.flush.offset.checkpoint.interval.ms": "How often it is noted how far logs are on disk.",
    "log.flush.start.offset.checkpoint.interval.ms": "How often it is noted where logs begin.",
    "log.retention.check.interval.ms": "How often old segments are looked for.",
    "max.connections": "The most connections at once.",
    "max.connection.creation.rate": "New connections a second, over ten seconds.",
    "max.connections.per.ip": "The most connections at once from one address.",
    "max.connections.per.ip.overrides": "Other limits for some, as host:count,host:count.",
    "max.incremental.fetch.session.cache.slots": "The most fetch sessions that are kept.",
    "max.request.partition.size.limit": "The most partitions in one DescribeTopicPartitions "
    "response.",
    "node.id": "The broker's id in its cluster.",
    "num.replica.fetchers": "Connections to each leader by which its partitions are followed.",
    "num.partitions": "Partitions of a topic that is made without saying how many.",
    "offset.metadata.max.bytes": "The most metadata that is kept with a committed offset.",
    "offsets.commit.timeout.ms": "How long a coordinator's record may take to be replicated.",
    "offsets.retention.check.interval.ms": "How often expired offsets are looked for.",
    "offsets.retention.minutes": "How long the offsets of an empty group are kept.",
    "offsets.topic.compression.codec": "The codec of committed offsets: 0 none, 1 gzip, 2 snappy, "
    "3 lz4, 4 zstd.",
    "offsets.topic.num.partitions": "Partitions of the topic of committed offsets.",
    "offsets.topic.replication.factor": "Replicas of the topic of committed offsets; by default "
    "no more than there are brokers.",
    "offsets.topic.segment.bytes": "Segment size of the topic of committed offsets.",
    "process.roles": "What a KRaft node is; only that it has the broker role matters.",
    "producer.id.expiration.check.interval.ms": "How often silent producers are looked for.",
    "producer.id.expiration.ms": "How long a silent producer's last sequence numbers are kept.",
    "queued.max.request.bytes": "The most memory of requests that are coming in, -1 for no limit.",
    "replica.fetch.backoff.ms": "How long a follower rests a partition that failed.",
    "replica.fetch.max.bytes": "The most bytes of one partition that a follower asks for at once.",
    "replica.fetch.min.bytes": "The least bytes that a leader answers a follower with at once.",
    "replica.fetch.response.max.bytes": "The most bytes that a follower asks for at once.",
    "replica.fetch.wait.max.ms": "How long a leader may wait for something to answer with.",
    "replica.high.watermark.checkpoint.interval.ms": "How often high watermarks are noted.",
    "replica.lag.time.max.ms": "How long a follower may be behind and count as in sync.",
    "replica.selector.class": "`org.apache.kafka.common.replica.RackAwareReplicaSelector` sends "
    "consumers with a `client.rack` to an in-sync replica there.",
    "replica.socket.receive.buffer.bytes": "Receive buffer of a follower's connection to its "
    "leader; by default what the system chooses.",
    "replica.socket.timeout.ms": "How long a follower waits for its leader's answer.",
    "request.timeout.ms": "How long a record of a transaction's coordinator may take to be "
    "replicated, and another broker to answer what is no replication.",
    "quota.window.num": "Windows of time over which it is measured what clients ask for.",
    "quota.window.size.seconds": "How long each of them is.",
    "replication.quota.window.num": "Windows of time by which throttled replication keeps to its "
    "rate.",
    "replication.quota.window.size.seconds": "How long each of them is.",
    "share.coordinator.snapshot.update.records.per.snapshot": "How many changes of a share "
    "partition are written before all of its state is.",
    "share.coordinator.state.topic.compression.codec": "The compression of the topic of share "
    "state.",
    "share.coordinator.state.topic.min.isr": "min.insync.replicas of the topic of share state.",
    "share.coordinator.state.topic.num.partitions": "Partitions of the topic of share state.",
    "share.coordinator.state.topic.replication.factor": "Replicas of the topic of share state; by "
    "default no more than there are brokers.",
    "share.coordinator.state.topic.segment.bytes": "Segment size of the topic of share state.",
    "sasl.enabled.mechanisms": "How clients may prove who they are: PLAIN, SCRAM-SHA-256, "
    "SCRAM-SHA-512, and OAUTHBEARER, whose tokens nobody has signed unless "
    "sasl.server.callback.handler.class says otherwise.",
    "sasl.jaas.config": "The users and secrets of a mechanism, in a line as JAAS has it; set it as "
    "listener.name.LISTENER.MECHANISM.sasl.jaas.config.",
    "sasl.login.callback.handler.class": "Of OAUTHBEARER between brokers: Apache Kafka's "
    "OAuthBearerLoginCallbackHandler may be named, and does nothing more: where there is "
    "sasl.oauthbearer.token.endpoint.url, tokens are had there.",
    "sasl.login.refresh.window.factor": "The part of a token's life after which a broker has "
    "another one to log in to the others by.",
    "sasl.mechanism.inter.broker.protocol": "How a broker proves to the others who it is, with the "
    "name and password of that mechanism's sasl.jaas.config, or by OAUTHBEARER with a token.",
    "sasl.oauthbearer.client.credentials.client.id": "As whom a broker asks for a token; else the "
    "option clientId of sasl.jaas.config.",
    "sasl.oauthbearer.client.credentials.client.secret": "By which password; else the option "
    "clientSecret.",
    "sasl.oauthbearer.clock.skew.seconds": "How wrong the clock of who signs tokens may be.",
    "sasl.oauthbearer.expected.audience": "Whom a signed token must be for, one of these; a token "
    "that names somebody is for nobody else.",
    "sasl.oauthbearer.expected.issuer": "Who must have issued a signed token.",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": "How often the keys that sign tokens are fetched.",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": "How long it is tried again where that "
    "fails; the keys that are known hold meanwhile.",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": "How soon it is tried again, twice as long "
    "after each time.",
    "sasl.oauthbearer.jwks.endpoint.url": "Where the keys that sign tokens are (JWKS): an http: or "
    "https: URL, or a file: URL, whose file is followed.",
    "sasl.oauthbearer.scope": "Which scope a broker asks of a token; else the option scope.",
    "sasl.oauthbearer.scope.claim.name": "Where a signed token has its scopes.",
    "sasl.oauthbearer.sub.claim.name": "Where a signed token has the name of who shows it.",
    "sasl.oauthbearer.token.endpoint.url": "Where a broker has the token by which it logs in to "
    "the others: a file: URL, or the http: or https: URL of a server that gives one for the "
    "client's credentials. Without it the token is one that nobody has signed.",
    "sasl.server.callback.handler.class": "Of OAUTHBEARER: Apache Kafka's "
    "OAuthBearerValidatorCallbackHandler for tokens that are signed, or its class for those that "
    "are not.",
    "delegation.token.expiry.check.interval.ms": "How often tokens that have expired are removed.",
    "delegation.token.expiry.time.ms": "How long a delegation token holds unless it is renewed.",
    "delegation.token.max.lifetime.ms": "How long one can be renewed, at most.",
    "delegation.token.secret.key": "The secret that delegation tokens are made of, the same for "
    "all brokers; without it there are none.",
    "sasl.server.max.receive.size": "The longest request of a client that is not known yet.",
    "security.inter.broker.protocol": "The listener that brokers talk to each other by, where "
    "inter.broker.listener.name is not given.",
    "share.coordinator.write.timeout.ms": "How long a change of share state may take to be "
    "committed.",
    "socket.connection.setup.timeout.ms": "How long a connection to another broker may take.",
    "socket.listen.backlog.size": "Connections that the kernel holds until they are accepted; "
    "4096 where it is not set, and never more than net.core.somaxconn.",
    "socket.receive.buffer.bytes": "Receive buffer of each socket, -1 for the system's default.",
    "socket.request.max.bytes": "The largest request that is taken.",
    "socket.send.buffer.bytes": "Send buffer of each socket, -1 for the system's default.",
    "ssl.allow.dn.changes": "Whether a new certificate may have another name.",
    "ssl.allow.san.changes": "Whether one may lack alternative names that the old one has.",
    "ssl.cipher.suites": "Java's names; all that OpenSSL has where it is not set. Of TLS 1.3's "
    "Python before 3.15 forbids none: a client that insists on another is turned away.",
    "ssl.client.auth": "Whether clients show a certificate: none, requested, or required; of a "
    "SASL_SSL listener where it is set for that one.",
    "ssl.enabled.protocols": "Of TLSv1.2 and TLSv1.3; older ones are taken and never served.",
    "ssl.endpoint.identification.algorithm": "`https`, or empty to take a broker's certificate "
    "whatever name it is for.",
    "ssl.key.password": "Of the private key, where that has one of its own.",
    "ssl.keystore.certificate.chain": "The certificate and those that vouch for it, PEM.",
    "ssl.keystore.key": "The private key, PEM, PKCS#8.",
    "ssl.keystore.location": "Key and certificates in a file, which is read again when it changes.",
    "ssl.keystore.password": "Of that file, where it is JKS or PKCS12.",
    "ssl.keystore.type": "PEM, JKS or PKCS12; the latter two are told apart by the file.",
    "ssl.principal.mapping.rules": "From the name in a client's certificate to its principal.",
    "ssl.protocol": "The name of a version of TLS; ssl.enabled.protocols says which are served.",
    "ssl.truststore.certificates": "Whom clients' certificates are trusted from, PEM.",
    "ssl.truststore.location": "The same in a file, which is read again when it changes.",
    "ssl.truststore.password": "Of that file; JKS can be read without.",
    "ssl.truststore.type": "PEM, JKS or PKCS12, as ssl.keystore.type.",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "How often transactions that "
    "have timed out are looked for.",
    "telemetry.max.bytes": "The largest payload of metrics that clients push, before and after it "
    "is decompressed.",
    "transaction.max.timeout.ms": "The longest timeout that a transactional producer may ask for.",
    "transaction.partition.verification.enable": "Whether a partition asks the coordinator before "
    "it takes the first batch of a transaction (KIP-890).",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "How often transactional ids "
    "that nobody uses are looked for.",
    "transaction.state.log.min.isr": "min.insync.replicas of the topic of transactions.",
    "transaction.state.log.num.partitions": "Partitions of the topic of transactions.",
    "transaction.state.log.replication.factor": "Replicas of the topic of transactions; by default "
    "no more than there are brokers.",
    "transaction.state.log.segment.bytes": "Segment size of the topic of transactions.",
    "transactional.id.expiration.ms": "How long a transactional id that nobody uses is kept.",
}

BROKER.update(
    (synonym.name, TOPIC[name]) for name, synonyms in TOPIC_SYNONYMS.items() for synonym in synonyms
)
BROKER.update((synonym, GROUP[name]) for name, synonym in GROUP_SYNONYMS.items())

CLIENT_METRICS = {
    "interval.ms": "How often the clients push their metrics.",
    "match": "Which clients are meant: name=regex, all must match.",
    "metrics": "Prefixes of the metrics' names that are pushed, * for all.",
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
    """The sentences on a config of a resource, None if there are none."""
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
    "controlled.shutdown.max.retries": "How often a broker that is stopped asks the controller to "
    "have others lead what it leads; all attempts together take controller.socket.timeout.ms and "
    "their pauses at most.",
    "controlled.shutdown.retry.backoff.ms": "How long it waits before it asks again; Apache "
    "Kafka's default is 5000.",
    "zookeeper.connect": "The servers, with commas between, and a chroot behind the last: the "
    "broker is a member of the cluster there.",
    "zookeeper.connection.timeout.ms": "How long whoever needs ZooKeeper waits until it is "
    "reached; by default as long as a session lasts.",
    "zookeeper.session.timeout.ms": "How long ZooKeeper waits for a broker before others take it "
    "for gone.",
    "zookeeper.set.acl": "Whether only the brokers may change what they have written.",
    "zookeeper.ssl.client.enable": "Whether ZooKeeper is talked to by TLS.",
    "zookeeper.ssl.endpoint.identification.algorithm": "HTTPS has the server's name compared with "
    "its certificate, nothing does not.",
    "zookeeper.ssl.keystore.location": "A PEM file with the broker's key and its certificates.",
    "zookeeper.ssl.keystore.password": "The password of the key.",
    "zookeeper.ssl.keystore.type": "PEM; others cannot be read.",
    "zookeeper.ssl.truststore.location": "A PEM file with the certificates to trust.",
    "zookeeper.ssl.truststore.type": "PEM; others cannot be read.",
}
