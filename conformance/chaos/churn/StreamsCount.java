import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Counts the words of a topic exactly once. Words are re-keyed (a repartition topic) and counted (a
 * store with its changelog), and every update is written to another topic.
 *
 * <p>Arguments: bootstrap servers, application id, topic of words, topic of counts, state folder, a
 * file, and the protocol of its group (classic or streams). While the file exists, an instance that
 * counts a word blocks forever, with that word's update written and its transaction open. Prints
 * "state STATE" at every change of state, and "first word" when it counts its first word.
 */
public final class StreamsCount {
    public static void main(String[] arguments) {
        StreamsBuilder builder = new StreamsBuilder();
        AtomicBoolean counting = new AtomicBoolean();
        Path halt = Path.of(arguments[5]);
        KStream<String, Long> counted = builder.stream(arguments[2], Consumed.with(Serdes.String(), Serdes.String()))
            .selectKey((key, word) -> word)
            .groupByKey(Grouped.with("words", Serdes.String(), Serdes.String()))
            .count(Materialized.as("counts"))
            .toStream();
        counted.to(arguments[3], Produced.with(Serdes.String(), Serdes.Long()));
        counted.peek((word, count) -> {
            if (counting.compareAndSet(false, true)) {
                System.out.println("first word");
            }
            if (Files.exists(halt)) {
                await(new CountDownLatch(1));
            }
        });

        KafkaStreams streams = new KafkaStreams(builder.build(), settings(arguments));
        CountDownLatch stopped = new CountDownLatch(1);
        streams.setStateListener((state, before) -> {
            System.out.println("state " + state);
            if (state == KafkaStreams.State.NOT_RUNNING || state == KafkaStreams.State.ERROR) {
                stopped.countDown();
            }
        });
        streams.setUncaughtExceptionHandler(failure -> {
            failure.printStackTrace();
            return StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            streams.close();
            await(stopped);
        }));
        streams.start();
        await(stopped);
    }

    private static void await(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException(interrupted);
        }
    }

    private static Properties settings(String[] arguments) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[1]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[4]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        // Write every update, not only the last one of each commit.
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put(StreamsConfig.REPARTITION_PURGE_INTERVAL_MS_CONFIG, 500);
        settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        // An open transaction must not time out before the test has seen it.
        settings.put(
            StreamsConfig.producerPrefix(ProducerConfig.TRANSACTION_TIMEOUT_CONFIG), 300_000);
        settings.put(StreamsConfig.GROUP_PROTOCOL_CONFIG, arguments[6]);
        if (arguments[6].equals("classic")) { // in the streams protocol the broker sets these
            settings.put(StreamsConfig.NUM_STANDBY_REPLICAS_CONFIG, 1);
            // The time until a killed instance is noticed.
            settings.put(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG, 6_000);
        }
        return settings;
    }
}
