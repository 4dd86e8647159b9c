import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Clients of Apache Kafka that do what they are told, a JSON line each, as confluent.py does. Each
 * has a thread of its own, so that one may wait while another is told something.
 */
public final class Clients {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration CLOSING = Duration.ofSeconds(1);
    private static final Map<String, String> OF_PRODUCER = Map.of(
        "idempotent", "enable.idempotence",
        "transactional_id", "transactional.id",
        "transaction_timeout_ms", "transaction.timeout.ms",
        "acks", "acks",
        "delivery_timeout_ms", "delivery.timeout.ms",
        "request_timeout_ms", "request.timeout.ms",
        "batch_bytes", "batch.size");
    private static final Map<String, String> OF_CONSUMER = Map.of(
        "group", "group.id",
        "reset", "auto.offset.reset",
        "isolation", "isolation.level",
        "session_timeout_ms", "session.timeout.ms",
        "heartbeat_ms", "heartbeat.interval.ms",
        "request_timeout_ms", "request.timeout.ms");

    /** What a client does when it is told so. */
    private interface Client {
        JsonNode does(JsonNode told) throws Exception;
    }

    /** One that is told things, in their order. */
    private static final class Worker {
        final ExecutorService thread = Executors.newSingleThreadExecutor(work -> {
            Thread made = new Thread(work);
            made.setDaemon(true);
            return made;
        });
        Client client;
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Worker> workers = new ConcurrentHashMap<>();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        String line;
        while ((line = lines.readLine()) != null) {
            JsonNode told = JSON.readTree(line);
            Worker worker = workers.computeIfAbsent(told.get("who").asText(), who -> new Worker());
            worker.thread.submit(() -> say(answer(worker, told)));
        }
        System.exit(0);
    }

    private static ObjectNode answer(Worker worker, JsonNode told) {
        ObjectNode answer = JSON.createObjectNode().put("id", told.get("id").asInt());
        try {
            JsonNode value = null;
            switch (told.get("do").asText()) {
                case "producer" -> worker.client = new Producing(told);
                case "consumer" -> worker.client = new Consuming(told);
                case "admin" -> worker.client = new Administering(told);
                default -> value = worker.client.does(told);
            }
            answer.set("value", value);
        } catch (Throwable problem) {
            answer.put("error", named(problem)).put("message", String.valueOf(problem));
        }
        return answer;
    }

    private static synchronized void say(ObjectNode answer) {
        System.out.println(answer);
    }

    private static String named(Throwable problem) {
        Throwable cause = problem;
        while (cause instanceof ExecutionException && cause.getCause() != null) {
            cause = cause.getCause();
        }
        if (cause.getClass() == org.apache.kafka.common.KafkaException.class && cause.getCause() != null) {
            cause = cause.getCause();
        }
        if (cause instanceof org.apache.kafka.common.errors.TimeoutException) {
            return "TIMED_OUT";
        }
        if (cause instanceof org.apache.kafka.common.errors.RecordTooLargeException) {
            return "MESSAGE_TOO_LARGE";
        }
        Errors error = Errors.forException(cause);
        return error == Errors.UNKNOWN_SERVER_ERROR ? cause.getClass().getSimpleName() : error.name();
    }

    private static Properties properties(JsonNode told, Map<String, String> names) {
        Properties made = new Properties();
        made.put("bootstrap.servers", told.get("bootstrap").asText());
        made.put("retry.backoff.ms", "20");
        made.put("retry.backoff.max.ms", "200");
        made.put("reconnect.backoff.ms", "20");
        made.put("reconnect.backoff.max.ms", "200");
        names.forEach((name, property) -> {
            if (told.has(name)) {
                made.put(property, told.get(name).asText());
            }
        });
        return made;
    }

    private static final class Producing implements Client {
        private final KafkaProducer<String, String> producer;

        Producing(JsonNode told) {
            Properties given = properties(told, OF_PRODUCER);
            given.put("linger.ms", "0");
            producer = new KafkaProducer<>(given, new StringSerializer(), new StringSerializer());
        }

        @Override
        public JsonNode does(JsonNode told) throws Exception {
            switch (told.get("do").asText()) {
                case "send" -> {
                    return send(told);
                }
                case "init" -> producer.initTransactions();
                case "begin" -> producer.beginTransaction();
                case "commit" -> producer.commitTransaction();
                case "abort" -> producer.abortTransaction();
                default -> producer.close(CLOSING);
            }
            return null;
        }

        private ArrayNode send(JsonNode told) throws InterruptedException {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            int partition = told.path("partition").asInt(0);
            for (JsonNode value : told.get("values")) {
                sent.add(producer.send(
                    new ProducerRecord<>(told.get("topic").asText(), partition, null, value.asText())));
            }
            ArrayNode outcomes = JSON.createArrayNode();
            for (Future<RecordMetadata> each : sent) {
                try {
                    outcomes.add(each.get().offset());
                } catch (ExecutionException problem) {
                    outcomes.add(named(problem));
                }
            }
            return outcomes;
        }
    }

    private static final class Consuming implements Client {
        private final KafkaConsumer<String, String> consumer;

        Consuming(JsonNode told) {
            Properties given = properties(told, OF_CONSUMER);
            given.put("enable.auto.commit", "false");
            given.put("fetch.max.wait.ms", "100");
            consumer = new KafkaConsumer<>(given, new StringDeserializer(), new StringDeserializer());
            List<String> topics = new ArrayList<>();
            told.get("topics").forEach(topic -> topics.add(topic.asText()));
            consumer.subscribe(topics);
        }

        @Override
        public JsonNode does(JsonNode told) {
            switch (told.get("do").asText()) {
                case "poll" -> {
                    return poll(told.get("count").asInt(), told.get("timeout_ms").asLong());
                }
                case "commit" -> consumer.commitSync();
                default -> consumer.close(CLOSING);
            }
            return null;
        }

        private ArrayNode poll(int count, long timeoutMs) {
            ArrayNode found = JSON.createArrayNode();
            long end = System.nanoTime() + timeoutMs * 1_000_000;
            while (found.size() < count && System.nanoTime() < end) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                    found.add(JSON.createArrayNode()
                        .add(record.partition()).add(record.offset()).add(record.value()));
                }
            }
            return found;
        }
    }

    private static final class Administering implements Client {
        private final Admin admin;

        Administering(JsonNode told) {
            admin = Admin.create(properties(told, Map.of()));
        }

        @Override
        public JsonNode does(JsonNode told) throws Exception {
            switch (told.get("do").asText()) {
                case "create" -> admin.createTopics(
                    List.of(new NewTopic(told.get("topic").asText(), 1, (short) -1))).all().get();
                case "delete_records" -> {
                    Map<TopicPartition, RecordsToDelete> before = new HashMap<>();
                    before.put(
                        new TopicPartition(told.get("topic").asText(), told.get("partition").asInt()),
                        RecordsToDelete.beforeOffset(told.get("before").asLong()));
                    admin.deleteRecords(before).all().get();
                }
                default -> admin.close(CLOSING);
            }
            return null;
        }
    }
}
