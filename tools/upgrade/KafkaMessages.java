import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.Readable;

/**
 * What Apache Kafka makes of messages. Lines come from standard input, each a JSON object with
 * "message" and "version". One with "json" is printed with "hex", the bytes of these values; one with
 * "hex" with "end", where reading them ended, and "json", the values (without records, which Kafka's
 * JSON lacks), or with "refused", why they cannot be read.
 *
 * <pre>java -cp "(libs of Kafka)/*" KafkaMessages.java</pre>
 */
public class KafkaMessages {
    static final String[] PLACES = {
        "org.apache.kafka.common.message.%sData", "org.apache.kafka.common.message.%s",
        "org.apache.kafka.common.metadata.%s", "org.apache.kafka.raft.generated.%s",
        "org.apache.kafka.coordinator.group.generated.%s",
        "org.apache.kafka.coordinator.transaction.generated.%s",
        "org.apache.kafka.coordinator.share.generated.%s",
        "org.apache.kafka.server.log.remote.metadata.storage.generated.%s",
        "org.apache.kafka.storage.internals.log.generated.%s",
        "org.apache.kafka.server.generated.%s", "org.apache.kafka.storage.internals.generated.%s"};

    static Class<?> find(String name) throws ClassNotFoundException {
        for (String place : PLACES) {
            try {
                return Class.forName(String.format(place, name));
            } catch (ClassNotFoundException e) {
                // the next place
            }
        }
        throw new ClassNotFoundException(name);
    }

    static void encode(Class<?> type, ObjectNode line, short version) throws Exception {
        Message message = (Message) Class.forName(type.getName() + "JsonConverter")
            .getMethod("read", JsonNode.class, short.class)
            .invoke(null, line.get("json"), version);
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        line.put("hex", HexFormat.of().formatHex(buffer.array()));
    }

    static void decode(Class<?> type, ObjectNode line, short version) throws Exception {
        ByteBuffer buffer = ByteBuffer.wrap(HexFormat.of().parseHex(line.get("hex").asText()));
        Object message;
        try {
            message = type.getConstructor(Readable.class, short.class)
                .newInstance(new ByteBufferAccessor(buffer), version);
        } catch (InvocationTargetException e) {
            line.put("refused", String.valueOf(e.getCause().getMessage()));
            return;
        }
        line.put("end", buffer.position());
        line.set("json", (JsonNode) Class.forName(type.getName() + "JsonConverter")
            .getMethod("write", type, short.class, boolean.class)
            .invoke(null, message, version, false));
    }

    public static void main(String[] args) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String text = in.readLine(); text != null; text = in.readLine()) {
            ObjectNode line = (ObjectNode) mapper.readTree(text);
            short version = (short) line.get("version").asInt();
            Class<?> type = find(line.get("message").asText());
            if (line.has("json")) {
                encode(type, line, version);
            } else {
                decode(type, line, version);
            }
            out.println(mapper.writeValueAsString(line));
        }
        out.flush();
    }
}
