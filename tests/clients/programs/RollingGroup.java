import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.serialization.IntegerDeserializer;
import org.apache.kafka.common.serialization.IntegerSerializer;

/**
 * Replaces the three classic consumers of a group one by one by consumers of the consumer protocol,
 * and then by classic ones again, while numbers are written to their topic.
 *
 * <p>Arguments: bootstrap servers, topic, number of its partitions, group, and "static" or
 * "dynamic". Prints a line for each step and ends with status 0 once all numbers have been read. The
 * last line has how many numbers were written and how many of them were read more than once.
 */
public final class RollingGroup {
    private static final int MEMBERS = 3;
    private static final ConcurrentHashMap<Integer, AtomicInteger> SEEN = new ConcurrentHashMap<>();
    private static final AtomicBoolean FAILED = new AtomicBoolean();

    public static void main(String[] arguments) throws Exception {
        int partitions = Integer.parseInt(arguments[2]);
        boolean isStatic = arguments[4].equals("static");
        Writer writer = new Writer(arguments[0], arguments[1]);
        writer.start();
        Member[] members = new Member[MEMBERS];
        for (String protocol : List.of("classic", "consumer", "classic")) {
            for (int slot = 0; slot < MEMBERS; slot++) {
                if (members[slot] != null) {
                    members[slot].end();
                }
                String instance = isStatic ? "instance-" + slot : null;
                members[slot] = new Member(arguments[0], arguments[1], arguments[3], protocol, instance);
                members[slot].start();
                awaitShares(members, partitions);
                System.out.println(slot + " is " + protocol);
            }
        }
        int written = writer.end();
        while (SEEN.size() < written && !FAILED.get()) {
            Thread.sleep(10);
        }
        for (Member member : members) {
            member.end();
        }
        long twice = SEEN.values().stream().filter(count -> count.get() > 1).count();
        System.out.println("written " + written + " read " + SEEN.size() + " twice " + twice);
        System.exit(FAILED.get() ? 1 : 0);
    }

    /** Waits until all partitions are assigned, and each running member has at least one. */
    private static void awaitShares(Member[] members, int partitions) throws InterruptedException {
        while (!FAILED.get()) {
            int owned = 0;
            boolean all = true;
            for (Member member : members) {
                owned += member == null ? 0 : member.share;
                all &= member == null || member.share > 0;
            }
            if (all && owned == partitions) {
                return;
            }
            Thread.sleep(10);
        }
    }

    private static final class Writer extends Thread {
        private final KafkaProducer<Integer, Integer> producer;
        private final String topic;
        private volatile boolean ends;
        private int written;

        Writer(String bootstrap, String topic) {
            Properties settings = new Properties();
            settings.put("bootstrap.servers", bootstrap);
            producer = new KafkaProducer<>(settings, new IntegerSerializer(), new IntegerSerializer());
            this.topic = topic;
        }

        @Override
        public void run() {
            while (!ends) {
                producer.send(new ProducerRecord<>(topic, written, written));
                written++;
                try {
                    Thread.sleep(2);
                } catch (InterruptedException stopped) {
                    return;
                }
            }
        }

        int end() throws InterruptedException {
            ends = true;
            join();
            producer.close();
            return written;
        }
    }

    private static final class Member extends Thread {
        private final KafkaConsumer<Integer, Integer> consumer;
        private final String topic;
        private volatile boolean ends;
        volatile int share;

        Member(String bootstrap, String topic, String group, String protocol, String instance) {
            Properties settings = new Properties();
            settings.put("bootstrap.servers", bootstrap);
            settings.put("group.id", group);
            settings.put("group.protocol", protocol);
            settings.put("enable.auto.commit", "false");
            settings.put("auto.offset.reset", "earliest");
            if (instance != null) {
                settings.put("group.instance.id", instance);
            }
            if (protocol.equals("classic")) {
                settings.put("heartbeat.interval.ms", "200");
                settings.put(
                    "partition.assignment.strategy",
                    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
                );
            }
            consumer = new KafkaConsumer<>(settings, new IntegerDeserializer(), new IntegerDeserializer());
            this.topic = topic;
        }

        @Override
        public void run() {
            try {
                consumer.subscribe(List.of(topic));
                while (!ends) {
                    Collection<Integer> numbers = new ArrayList<>();
                    for (ConsumerRecord<Integer, Integer> found : consumer.poll(Duration.ofMillis(50))) {
                        numbers.add(found.value());
                    }
                    numbers.forEach(n -> SEEN.computeIfAbsent(n, k -> new AtomicInteger()).incrementAndGet());
                    commit();
                    share = consumer.assignment().size();
                }
                share = 0;
                consumer.close();
            } catch (Throwable problem) {
                problem.printStackTrace();
                FAILED.set(true);
            }
        }

        /** Commits; after a rebalance others read again what was read since the last commit. */
        private void commit() {
            try {
                consumer.commitSync();
            } catch (CommitFailedException | RebalanceInProgressException late) {
                System.out.println("late: " + late.getClass().getSimpleName());
            }
        }

        void end() throws InterruptedException {
            ends = true;
            join();
        }
    }
}
