import java.lang.reflect.Method;
import java.util.Optional;
import org.apache.kafka.common.protocol.ApiKeys;

/** Prints the API versions that a broker of the release reports, as lines "key oldest latest". */
public class Releases {
    public static void main(String[] scope) throws Exception {
        for (ApiKeys api : ApiKeys.values()) {
            if (scope.length > 0 && !inScope(api, scope[0])) continue;
            short[] range = range(api);
            if (range != null) System.out.println(api.id + " " + range[0] + " " + range[1]);
        }
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    static boolean inScope(ApiKeys api, String scope) throws Exception {
        Class type = Class.forName("org.apache.kafka.common.message.ApiMessageType$ListenerType");
        return (boolean) ApiKeys.class.getMethod("inScope", type).invoke(api, Enum.valueOf(type, scope));
    }

    static short[] range(ApiKeys api) throws Exception {
        Method method = null;
        try {
            method = ApiKeys.class.getMethod("toApiVersion", boolean.class);
        } catch (NoSuchMethodException before35) {
            return new short[] {api.oldestVersion(), api.latestVersion()};
        }
        Optional<?> range = (Optional<?>) method.invoke(api, false);
        if (range.isEmpty()) return null;
        Object version = range.get();
        return new short[] {
            (short) version.getClass().getMethod("minVersion").invoke(version),
            (short) version.getClass().getMethod("maxVersion").invoke(version)};
    }
}
