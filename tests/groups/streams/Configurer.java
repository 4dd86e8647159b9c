import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataDelta;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.generated.StreamsGroupTopologyValue;
import org.apache.kafka.coordinator.group.generated.StreamsGroupTopologyValue.CopartitionGroup;
import org.apache.kafka.coordinator.group.generated.StreamsGroupTopologyValue.Subtopology;
import org.apache.kafka.coordinator.group.generated.StreamsGroupTopologyValue.TopicConfig;
import org.apache.kafka.coordinator.group.generated.StreamsGroupTopologyValue.TopicInfo;
import org.apache.kafka.coordinator.group.streams.StreamsTopology;
import org.apache.kafka.coordinator.group.streams.topics.ConfiguredTopology;
import org.apache.kafka.coordinator.group.streams.topics.InternalTopicManager;
import org.slf4j.helpers.NOPLogger;

/**
 * What Apache Kafka makes of topologies that are drawn from a seed, beside topics some of which exist.
 * A line each: the topology's record in hex|topics and their partitions|answer.
 */
public class Configurer {
    static Random draw;
    static Map<String, Integer> existing;

    public static void main(String[] arguments) {
        draw = new Random(Long.parseLong(arguments[0]));
        for (int line = Integer.parseInt(arguments[1]); line > 0; line--) {
            existing = new TreeMap<>();
            StreamsGroupTopologyValue value = topology();
            byte[] bytes = MessageUtil.toVersionPrefixedBytes((short) 0, value);
            List<String> topics = new ArrayList<>();
            existing.forEach((name, count) -> topics.add(name + "=" + count));
            System.out.println(HexFormat.of().formatHex(bytes) + "|" + String.join(" ", topics) + "|" + answer(value));
        }
    }

    static StreamsGroupTopologyValue topology() {
        int usual = 1 + draw.nextInt(4);
        int topics = 1 + draw.nextInt(4);
        int repartitions = draw.nextInt(4);
        for (int topic = 0; topic < topics; topic++)
            if (draw.nextInt(30) > 0) existing.put("in-" + topic, draw.nextInt(5) > 0 ? usual : 1 + draw.nextInt(6));
        List<Subtopology> subtopologies = new ArrayList<>();
        for (int number = draw.nextInt(4); number >= 0; number--) {
            Subtopology subtopology = new Subtopology().setSubtopologyId(Integer.toString(number));
            for (int topic = 0; topic < topics; topic++)
                if (draw.nextInt(topics) == 0) subtopology.sourceTopics().add("in-" + topic);
            subtopologies.add(subtopology);
        }
        for (int topic = 0; topic < repartitions; topic++) {
            String name = "app-" + Integer.toString(draw.nextInt(1000), 36) + "-repartition";
            if (draw.nextInt(12) > 0) pick(subtopologies).repartitionSinkTopics().add(name);
            int count = draw.nextInt(3) == 0 ? (draw.nextBoolean() ? usual : 1 + draw.nextInt(5)) : 0;
            pick(subtopologies).repartitionSourceTopics().add(internal(name, count));
            if (draw.nextInt(4) == 0) existing.put(name, draw.nextInt(5) > 0 ? usual : 1 + draw.nextInt(5));
        }
        for (Subtopology subtopology : subtopologies) {
            if (subtopology.sourceTopics().isEmpty() && subtopology.repartitionSourceTopics().isEmpty() && draw.nextInt(20) > 0)
                subtopology.sourceTopics().add("in-0");
            for (int store = draw.nextInt(3); store > 0; store--) {
                String name = "app-" + Integer.toString(draw.nextInt(1000), 36) + "-changelog";
                subtopology.stateChangelogTopics().add(internal(name, 0));
                if (draw.nextInt(5) == 0) existing.put(name, draw.nextInt(5) > 0 ? usual : 1 + draw.nextInt(5));
            }
            for (int group = draw.nextInt(3); group > 0; group--) subtopology.copartitionGroups().add(copartition(subtopology));
        }
        return new StreamsGroupTopologyValue().setEpoch(draw.nextInt(3)).setSubtopologies(subtopologies);
    }

    static Subtopology pick(List<Subtopology> subtopologies) {
        return subtopologies.get(draw.nextInt(subtopologies.size()));
    }

    static TopicInfo internal(String name, int count) {
        TopicInfo topic = new TopicInfo().setName(name).setPartitions(count);
        if (draw.nextBoolean()) topic.setReplicationFactor((short) 1);
        if (draw.nextBoolean()) topic.topicConfigs().add(new TopicConfig().setKey("cleanup.policy").setValue("compact"));
        return topic;
    }

    static CopartitionGroup copartition(Subtopology subtopology) {
        CopartitionGroup group = new CopartitionGroup();
        for (short place = 0; place < subtopology.sourceTopics().size(); place++)
            if (draw.nextInt(3) > 0) group.sourceTopics().add(place);
        for (short place = 0; place < subtopology.repartitionSourceTopics().size(); place++)
            if (draw.nextInt(3) > 0) group.repartitionSourceTopics().add(place);
        return group;
    }

    static String answer(StreamsGroupTopologyValue value) {
        ConfiguredTopology configured;
        try {
            configured = InternalTopicManager.configureTopics(
                NOPLogger.NOP_LOGGER, "g", "m", 0, StreamsTopology.fromRecord(value), new Image(), Time.SYSTEM);
        } catch (ApiException exception) {
            return "invalid: " + exception.getMessage();
        } catch (RuntimeException exception) {
            return "broken";
        }
        List<String> parts = new ArrayList<>();
        configured.topicConfigurationException().ifPresent(it -> parts.add(it.status().code() + " " + it.getMessage()));
        configured.subtopologies().ifPresent(all -> all.forEach((id, it) -> {
            List<String> topics = new ArrayList<>();
            it.repartitionSourceTopics().values().forEach(topic -> topics.add(topic.name() + "=" + topic.numberOfPartitions()));
            it.stateChangelogTopics().values().forEach(topic -> topics.add(topic.name() + "=" + topic.numberOfPartitions()));
            topics.sort(null);
            parts.add(id + ":" + it.numberOfTasks() + ":" + String.join(",", topics));
        }));
        configured.internalTopicsToBeCreated().values().forEach(topic -> parts.add("+" + topic.name() + ":" + topic.numPartitions()
            + ":" + topic.replicationFactor() + ":" + topic.configs().stream().map(config -> config.name() + "=" + config.value()).toList()));
        return String.join(";", parts);
    }

    static class Image implements CoordinatorMetadataImage {
        public Set<Uuid> topicIds() { return Set.of(); }
        public Set<String> topicNames() { return existing.keySet(); }
        public Optional<TopicMetadata> topicMetadata(Uuid id) { return Optional.empty(); }
        public CoordinatorMetadataDelta emptyDelta() { return null; }
        public long version() { return 1; }
        public boolean isEmpty() { return existing.isEmpty(); }
        public Optional<TopicMetadata> topicMetadata(String name) {
            return Optional.ofNullable(existing.get(name)).map(count -> new TopicMetadata() {
                public String name() { return name; }
                public Uuid id() { return Uuid.ONE_UUID; }
                public int partitionCount() { return count; }
                public List<String> partitionRacks(int partition) { return List.of(); }
            });
        }
    }
}
