import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A member of a share group that rejects, releases and accepts records by their number.
 *
 * <p>Arguments: bootstrap servers, and the name of both the topic and the group. A record's value is a
 * number: of four records it rejects the first, releases the second each time, and accepts the others.
 * It ends when its standard input ends. It prints the number of records of each poll.
 */
public final class DeadLetters {
    private DeadLetters() {}

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.id", arguments[1]);
        settings.put("share.acknowledgement.mode", "explicit");
        settings.put("max.poll.records", "20");
        settings.put("reconnect.backoff.max.ms", "200");
        settings.put("retry.backoff.max.ms", "200");
        settings.put("default.api.timeout.ms", "10000");
        settings.put("key.deserializer", StringDeserializer.class.getName());
        settings.put("value.deserializer", StringDeserializer.class.getName());
        try (KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(settings)) {
            consumer.subscribe(List.of(arguments[1]));
            while (System.in.available() == 0) {
                int count = 0;
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                    consumer.acknowledge(record, kind(Integer.parseInt(record.value())));
                    count++;
                }
                // An error (the broker was killed) is not important: the record comes again.
                consumer.commitSync();
                System.out.println(count);
            }
        }
    }

    private static AcknowledgeType kind(int number) {
        return switch (number % 4) {
            case 0 -> AcknowledgeType.REJECT;
            case 1 -> AcknowledgeType.RELEASE;
            default -> AcknowledgeType.ACCEPT;
        };
    }
}
