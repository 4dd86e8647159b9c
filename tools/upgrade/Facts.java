import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.server.common.Feature;
import org.apache.kafka.server.common.FeatureVersion;
import org.apache.kafka.server.common.MetadataVersion;

/**
 * Prints what a release of Apache Kafka says of itself, as one JSON object: "apis", "errors",
 * "settings" and "features".
 *
 * <pre>java -cp "(libs of Kafka)/*" Facts.java</pre>
 *
 * What has moved between releases is found by reflection: each name of a class or field below is
 * tried in turn.
 */
public class Facts {
    static final ObjectMapper MAPPER = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        ObjectNode facts = MAPPER.createObjectNode();
        apis(facts.putArray("apis"));
        errors(facts.putArray("errors"));
        settings(facts.putArray("settings"));
        features(facts.putArray("features"));
        System.out.println(MAPPER.writeValueAsString(facts));
    }

    static void apis(ArrayNode out) {
        for (ApiKeys api : ApiKeys.values()) {
            if (!api.hasValidVersion()) {
                continue;
            }
            ObjectNode row = out.addObject();
            row.put("key", api.id);
            row.put("name", api.name);
            row.put("min", api.oldestVersion());
            row.put("max", api.latestVersion(true));
            row.put("stable", api.latestVersion(false));
            ArrayNode listeners = row.putArray("listeners");
            for (ApiMessageType.ListenerType listener : ApiMessageType.ListenerType.values()) {
                if (api.inScope(listener)) {
                    listeners.add(listener.name().toLowerCase());
                }
            }
        }
    }

    static void errors(ArrayNode out) {
        for (Errors error : Errors.values()) {
            ObjectNode row = out.addObject();
            row.put("code", error.code());
            row.put("name", error.name());
            row.put("retriable", error.exception() instanceof RetriableException);
        }
    }

    static void settings(ArrayNode out) throws Exception {
        Map<String, String> modes = updateModes();
        Map<String, String> synonyms = synonyms();
        ConfigDef broker = (ConfigDef) of("org.apache.kafka.server.config.AbstractKafkaConfig",
            "CONFIG_DEF");
        rows(out, "broker", broker.configKeys(), modes, Map.of());
        rows(out, "topic", keys("org.apache.kafka.storage.internals.log.LogConfig"),
            Map.of(), synonyms);
        rows(out, "group", keys("org.apache.kafka.coordinator.group.GroupConfig"),
            Map.of(), Map.of());
        rows(out, "client-metrics", keys("org.apache.kafka.server.metrics.ClientMetricsConfigs"),
            Map.of(), Map.of());
        rows(out, "producer", keys("org.apache.kafka.clients.producer.ProducerConfig"),
            Map.of(), Map.of());
        rows(out, "consumer", keys("org.apache.kafka.clients.consumer.ConsumerConfig"),
            Map.of(), Map.of());
        rows(out, "admin", keys("org.apache.kafka.clients.admin.AdminClientConfig"),
            Map.of(), Map.of());
        rows(out, "streams", keys("org.apache.kafka.streams.StreamsConfig"), Map.of(), Map.of());
    }

    @SuppressWarnings("unchecked")
    static Map<String, ConfigDef.ConfigKey> keys(String type) throws Exception {
        Object found = of(type, "configKeys", "configDef", "CONFIG_DEF");
        return found instanceof ConfigDef definition ? definition.configKeys()
            : (Map<String, ConfigDef.ConfigKey>) found;
    }

    /** The value of the first of these static methods and fields that a class has. */
    static Object of(String type, String... names) throws Exception {
        Class<?> found = Class.forName(type);
        for (String name : names) {
            try {
                return found.getMethod(name).invoke(null);
            } catch (NoSuchMethodException isNoMethod) {
                try {
                    return found.getField(name).get(null);
                } catch (NoSuchFieldException isNoField) {
                    continue;
                }
            }
        }
        throw new NoSuchMethodException(type + " has none of " + String.join(", ", names));
    }

    @SuppressWarnings("unchecked")
    static Map<String, String> updateModes() throws Exception {
        String method = "dynamicConfigUpdateModes";
        try {
            return (Map<String, String>) of("org.apache.kafka.server.config.DynamicBrokerConfig",
                method);
        } catch (ClassNotFoundException before43) {
            Object scala = of("kafka.server.DynamicBrokerConfig$", "MODULE$");
            Method modes = scala.getClass().getMethod(method);
            modes.setAccessible(true);
            return (Map<String, String>) modes.invoke(scala);
        }
    }

    /** The broker settings that are the defaults of each topic config, the first of them first. */
    static Map<String, String> synonyms() throws Exception {
        Map<String, String> found = new TreeMap<>();
        Map<?, ?> all = (Map<?, ?>) of("org.apache.kafka.server.config.ServerTopicConfigSynonyms",
            "ALL_TOPIC_CONFIG_SYNONYMS");
        for (Map.Entry<?, ?> entry : all.entrySet()) {
            StringBuilder names = new StringBuilder();
            for (Object synonym : (List<?>) entry.getValue()) {
                Object name = synonym.getClass().getMethod("name").invoke(synonym);
                names.append(names.length() == 0 ? "" : ",").append(name);
            }
            found.put(entry.getKey().toString(), names.toString());
        }
        return found;
    }

    static void rows(ArrayNode out, String resource, Map<String, ConfigDef.ConfigKey> keys,
                     Map<String, String> modes, Map<String, String> synonyms) {
        for (ConfigDef.ConfigKey key : new TreeMap<>(keys).values()) {
            ObjectNode row = out.addObject();
            row.put("resource", resource);
            row.put("name", key.name);
            row.put("type", key.type.name());
            row.put("default", key.hasDefault() ? text(key) : "<required>");
            row.put("valid", key.validator == null ? "" : key.validator.toString());
            row.put("importance", key.importance.name());
            row.put("update", resource.equals("broker")
                ? modes.getOrDefault(key.name, "read-only") : "");
            row.put("internal", key.internalConfig);
            row.put("synonyms", synonyms.getOrDefault(key.name, ""));
            row.put("documentation", key.documentation == null ? "" : key.documentation);
        }
    }

    static String text(ConfigDef.ConfigKey key) {
        return key.defaultValue == null ? "null"
            : ConfigDef.convertToString(key.defaultValue, key.type);
    }

    static void features(ArrayNode out) throws Exception {
        levels(out, MetadataVersion.FEATURE_NAME, MetadataVersion.VERSIONS,
            MetadataVersion.latestProduction().featureLevel());
        for (Feature feature : Feature.PRODUCTION_FEATURES) {
            levels(out, feature.featureName(), feature.featureVersions(),
                feature.latestProduction());
        }
    }

    static void levels(ArrayNode out, String feature, Object[] versions, short latestProduction)
            throws Exception {
        for (Object version : versions) {
            ObjectNode row = out.addObject();
            short level = (short) call(version, "featureLevel");
            row.put("feature", feature);
            row.put("level", level);
            row.put("name", version.toString());
            row.put("production", level <= latestProduction);
            row.put("needs", version instanceof FeatureVersion of
                ? new TreeMap<>(of.dependencies()).toString() : "{}");
            row.put("since", version instanceof FeatureVersion of
                ? of.bootstrapMetadataVersion().toString() : "");
            abilities(row.putObject("abilities"), version);
        }
    }

    /** What a level allows: every public method without arguments that is named for an ability. */
    static void abilities(ObjectNode out, Object version) throws Exception {
        for (Method method : version.getClass().getMethods()) {
            String name = method.getName();
            boolean isAbility = name.matches("(is(?!Production)|supports|did|are).*|.*(Record|Request|State)Version");
            if (isAbility && method.getParameterCount() == 0 && !method.isSynthetic()
                    && !Modifier.isStatic(method.getModifiers())) {
                String value;
                try {
                    value = String.valueOf(method.invoke(version));
                } catch (java.lang.reflect.InvocationTargetException unsupported) {
                    value = "none";
                }
                out.put(name, value);
            }
        }
    }

    static Object call(Object object, String method) throws Exception {
        return object.getClass().getMethod(method).invoke(object);
    }
}
