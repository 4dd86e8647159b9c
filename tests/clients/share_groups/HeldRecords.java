import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Shows how many records members of share groups hold, and for how long.
 *
 * <p>Arguments: bootstrap servers, a name for the topic and the group, and the scene to play. Prints
 * its results and ends. A consumer may fetch more records than a poll returns, so the output does not
 * say which of two members has which records.
 */
public final class HeldRecords {
    private static final Duration BRIEF = Duration.ofMillis(100);
    private static final int LIMIT = 100;
    private static final int WHILE_HELD_MS = 3000;
    private static final int LOCK_MS = 4000;
    private static final int RECORDS = 6;
    private final String bootstrap;
    private final String name;

    private HeldRecords(String bootstrap, String name) {
        this.bootstrap = bootstrap;
        this.name = name;
    }

    public static void main(String[] arguments) throws Exception {
        HeldRecords play = new HeldRecords(arguments[0], arguments[1]);
        switch (arguments[2]) {
            case "renewed" -> play.renewed();
            case "refused" -> play.refused();
            case "limited" -> play.limited(arguments[3]);
            default -> throw new IllegalArgumentException(arguments[2]);
        }
    }

    /**
     * One member is silent, one renews its locks: a third gets all records but the renewed ones.
     *
     * <p>Prints "late" and returns if the renewing member may not have renewed in time. The time runs
     * from before a poll or a renewal to after the next renewal; the limit is half a lock's duration,
     * since the third member takes turns with it.
     */
    private void renewed() throws Exception {
        begin(Map.of("share.record.lock.duration.ms", String.valueOf(LOCK_MS)));
        produce(RECORDS);
        try (Member silent = new Member("record_limit", 2);
                Member renewing = new Member("record_limit", 2);
                Member third = new Member("record_limit", RECORDS)) {
            List<ConsumerRecord<byte[], byte[]>> forgotten = silent.await();
            List<ConsumerRecord<byte[], byte[]>> held = renewing.await();
            System.out.println("lock " + renewing.consumer.acquisitionLockTimeoutMs().get());
            long began = System.nanoTime();
            long since = renewing.before;
            Map<Long, Short> others = new TreeMap<>();
            while (millis(began, System.nanoTime()) < 2 * LOCK_MS
                    || held.size() + others.size() < RECORDS) {
                long before = System.nanoTime();
                renewing.acknowledge(held, AcknowledgeType.RENEW);
                renewing.consumer.commitSync();
                if (isLate(since)) {
                    return;
                }
                since = before;
                take(third, others);
                held = renewing.await();
            }
            Map<Long, Short> mine = deliveries(held);
            System.out.println("renewed: delivered " + Set.copyOf(mine.values()));
            System.out.println("third has the others " + (mine.size() + others.size() == RECORDS));
            System.out.println("forgotten: delivered " + others.get(forgotten.get(0).offset()));
            renewing.acknowledge(held.subList(0, 1), AcknowledgeType.ACCEPT);
            renewing.acknowledge(held.subList(1, held.size()), AcknowledgeType.RELEASE);
            String settled = renewing.commit();
            if (isLate(since)) {
                return;
            }
            System.out.println("settled " + settled);
            mine.remove(held.get(0).offset());
            Map<Long, Short> last = new TreeMap<>();
            while (!last.keySet().containsAll(mine.keySet())) {
                take(third, last);
            }
            System.out.println("released: delivered " + Set.copyOf(last.values()));
            System.out.println("nothing else " + last.keySet().equals(mine.keySet()));
        }
    }

    private static boolean isLate(long since) {
        boolean isLate = millis(since, System.nanoTime()) > LOCK_MS / 2;
        if (isLate) {
            System.out.println("late");
        }
        return isLate;
    }

    private static void take(Member member, Map<Long, Short> had) {
        List<ConsumerRecord<byte[], byte[]>> records = member.poll();
        member.acknowledge(records, AcknowledgeType.ACCEPT);
        had.putAll(deliveries(records));
    }

    private static Map<Long, Short> deliveries(List<ConsumerRecord<byte[], byte[]>> records) {
        Map<Long, Short> counts = new TreeMap<>();
        records.forEach(record -> counts.put(record.offset(), record.deliveryCount().get()));
        return counts;
    }

    private static long millis(long from, long to) {
        return (to - from) / 1_000_000;
    }

    /** The group does not allow its members to renew. */
    private void refused() throws Exception {
        begin(Map.of("share.renew.acknowledge.enable", "false"));
        produce(2);
        try (Member member = new Member("record_limit", 2)) {
            member.acknowledge(member.await(), AcknowledgeType.RENEW);
            System.out.println("renewed " + member.commit());
            List<ConsumerRecord<byte[], byte[]>> held = member.poll();
            System.out.println("has " + held.size());
        }
    }

    /** While a member holds the first records, no member gets records beyond the limit. */
    private void limited(String mode) throws Exception {
        begin(Map.of("share.partition.max.record.locks", String.valueOf(LIMIT)));
        for (int batch = 0; batch < 10; batch++) {
            produce(25);
        }
        try (Member first = new Member(mode, 60);
                Member other = new Member(mode, 60)) {
            List<ConsumerRecord<byte[], byte[]>> held = first.await();
            System.out.println("first has " + held.get(0).offset() + " to " + (held.size() - 1));
            TreeMap<Long, Short> had = new TreeMap<>(Map.of(0L, (short) 0));
            long began = System.nanoTime();
            while (millis(began, System.nanoTime()) < WHILE_HELD_MS) {
                take(other, had);
            }
            System.out.println("nobody has more " + (had.lastKey() < LIMIT));
            first.acknowledge(held, AcknowledgeType.ACCEPT);
            System.out.println("accepted " + first.commit());
            while (had.lastKey() < LIMIT) {
                take(other, had);
            }
            System.out.println("then they do");
        }
    }

    private void begin(Map<String, String> settings) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin.createTopics(List.of(new NewTopic(name, 1, (short) 1))).all().get();
            List<AlterConfigOp> changes = new ArrayList<>();
            changes.add(set("share.auto.offset.reset", "earliest"));
            settings.forEach((key, value) -> changes.add(set(key, value)));
            ConfigResource group = new ConfigResource(ConfigResource.Type.GROUP, name);
            admin.incrementalAlterConfigs(Map.of(group, changes)).all().get();
        }
    }

    private static AlterConfigOp set(String key, String value) {
        return new AlterConfigOp(new ConfigEntry(key, value), AlterConfigOp.OpType.SET);
    }

    /** Produces this number of records in one batch. */
    private void produce(int records) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("linger.ms", "60000");
        settings.put("key.serializer", ByteArraySerializer.class.getName());
        settings.put("value.serializer", ByteArraySerializer.class.getName());
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings)) {
            for (int record = 0; record < records; record++) {
                producer.send(new ProducerRecord<>(name, new byte[] {1}));
            }
        }
    }

    private final class Member implements AutoCloseable {
        private final KafkaShareConsumer<byte[], byte[]> consumer;

        /** When the poll before the one that returned the records of {@link #await} began. */
        private long before;

        Member(String mode, int most) {
            Properties settings = new Properties();
            settings.put("bootstrap.servers", bootstrap);
            settings.put("group.id", name);
            settings.put("share.acknowledgement.mode", "explicit");
            settings.put("share.acquire.mode", mode);
            settings.put("max.poll.records", String.valueOf(most));
            settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
            settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
            consumer = new KafkaShareConsumer<>(settings);
            consumer.subscribe(List.of(name));
        }

        List<ConsumerRecord<byte[], byte[]>> poll() {
            return poll(BRIEF);
        }

        List<ConsumerRecord<byte[], byte[]>> poll(Duration wait) {
            List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
            consumer.poll(wait).forEach(records::add);
            return records;
        }

        List<ConsumerRecord<byte[], byte[]>> await() {
            long last = System.nanoTime();
            before = last;
            List<ConsumerRecord<byte[], byte[]>> records = poll();
            while (records.isEmpty()) {
                before = last;
                last = System.nanoTime();
                records = poll();
            }
            return records;
        }

        void acknowledge(List<ConsumerRecord<byte[], byte[]>> records, AcknowledgeType type) {
            records.forEach(record -> consumer.acknowledge(record, type));
        }

        /** Commits, and returns the result for each partition. */
        String commit() {
            Map<TopicIdPartition, Optional<KafkaException>> results = consumer.commitSync();
            return results.values().stream()
                    .map(error -> error.map(Throwable::toString).orElse("well"))
                    .collect(Collectors.joining(" "));
        }

        @Override
        public void close() {
            consumer.close();
        }
    }
}
