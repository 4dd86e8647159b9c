import java.lang.reflect.Method;
import java.util.Optional;
import org.apache.kafka.common.protocol.ApiKeys;

/** Which versions a broker of the release tells its clients of: "key oldest latest", a line each. */
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
        Method told = null;
        try {
            told = ApiKeys.class.getMethod("toApiVersion", boolean.class);
        } catch (NoSuchMethodException before35) {
            return new short[] {api.oldestVersion(), api.latestVersion()};
        }
        Optional<?> found = (Optional<?>) told.invoke(api, false);
        if (found.isEmpty()) return null;
        Object version = found.get();
        return new short[] {
            (short) version.getClass().getMethod("minVersion").invoke(version),
            (short) version.getClass().getMethod("maxVersion").invoke(version)};
    }
}
