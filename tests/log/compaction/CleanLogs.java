import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.Optional;
import java.util.function.Supplier;

import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.CleanerStats;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * Has Apache Kafka's own cleaner clean logs.  Each line of the input is one round:
 *
 *     folder now_ms delete.retention.ms segment.bytes first_dirty upper_bound dedupe_bytes
 *
 * and is answered by "end_offset milliseconds".  java -cp "<Kafka's libs>/*" CleanLogs.java
 */
public class CleanLogs {
    /** A clock that stands still. */
    record FixedTime(long milliseconds) implements Time {
        public long nanoseconds() { return milliseconds * 1_000_000; }
        public void sleep(long ms) { throw new UnsupportedOperationException(); }
        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
            throw new UnsupportedOperationException();
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] told = line.split(" ");
            Time time = new FixedTime(Long.parseLong(told[1]));
            LogConfig config = new LogConfig(Map.of(
                "cleanup.policy", "compact",
                "delete.retention.ms", told[2],
                "internal.segment.bytes", told[3],
                "index.interval.bytes", "512"));
            UnifiedLog log = UnifiedLog.create(
                new File(told[0]), config, 0, 0, scheduler, new BrokerTopicStats(), time,
                Integer.MAX_VALUE, new ProducerStateManagerConfig(Integer.MAX_VALUE, false),
                Integer.MAX_VALUE, new LogDirFailureChannel(1), true, Optional.empty());
            Throttler unlimited = new Throttler(Double.MAX_VALUE, 300, "c", "b", Time.SYSTEM);
            Cleaner cleaner = new Cleaner(
                0, new SkimpyOffsetMap(Integer.parseInt(told[6])), 262144, 1 << 20, 0.9,
                unlimited, time, partition -> { });
            LogToClean part = new LogToClean(
                log, Long.parseLong(told[4]), Long.parseLong(told[5]), false);
            long began = System.nanoTime();
            Map.Entry<Long, CleanerStats> done = cleaner.doClean(part, time.milliseconds());
            long took = (System.nanoTime() - began) / 1_000_000;
            log.close();
            System.out.println(done.getKey() + " " + took);
        }
        scheduler.shutdown();
        System.exit(0);
    }
}
