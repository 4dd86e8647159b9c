import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.internals.SecurityUtils;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.internals.CidrUtils;

/** Answers what standard input asks: a line for each question, its fields apart by tabs. */
public class AskAuthorizer {
    record Asker(KafkaPrincipal principal, InetAddress clientAddress)
            implements AuthorizableRequestContext {
        public String listenerName() { return "PLAINTEXT"; }
        public SecurityProtocol securityProtocol() { return SecurityProtocol.PLAINTEXT; }
        public int requestType() { return 0; }
        public int requestVersion() { return 0; }
        public String clientId() { return ""; }
        public int correlationId() { return 0; }
    }

    static Asker asker(String[] line) throws Exception {
        return new Asker(SecurityUtils.parseKafkaPrincipal(line[1]), InetAddress.getByName(line[2]));
    }

    static StandardAcl acl(String[] line) {
        return new StandardAcl(
            ResourceType.fromCode(Byte.parseByte(line[1])), line[3],
            PatternType.fromCode(Byte.parseByte(line[2])), line[4], line[5],
            AclOperation.fromCode(Byte.parseByte(line[6])),
            AclPermissionType.fromCode(Byte.parseByte(line[7])));
    }

    static String inRange(String range, String address) {
        try {
            CidrUtils.validate(range);
            return String.valueOf(CidrUtils.isInRange(address, range));
        } catch (IllegalArgumentException error) {
            return error.getMessage();
        }
    }

    public static void main(String[] arguments) throws Exception {
        var questions = new BufferedReader(
            new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StandardAuthorizer authorizer = null;
        Map<Uuid, StandardAcl> acls = new HashMap<>();
        for (String each = questions.readLine(); each != null; each = questions.readLine()) {
            String[] line = each.split("\t", -1);
            switch (line[0]) {
                case "new" -> {
                    authorizer = new StandardAuthorizer();
                    authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
                    authorizer.configure(Map.of("node.id", "1", "process.roles", "broker",
                        "super.users", line[1], "allow.everyone.if.no.acl.found", line[2]));
                    acls = new HashMap<>();
                }
                case "acl" -> acls.put(Uuid.randomUuid(), acl(line));
                case "loaded" -> {
                    authorizer.loadSnapshot(acls);
                    authorizer.completeInitialLoad();
                }
                case "ask" -> System.out.println(authorizer.authorize(asker(line), List.of(
                    new Action(AclOperation.fromCode(Byte.parseByte(line[3])),
                        new ResourcePattern(ResourceType.fromCode(Byte.parseByte(line[4])),
                            line[5], PatternType.LITERAL), 1, true, true))).get(0));
                case "range" -> System.out.println(inRange(line[1], line[2]));
                case "any" -> System.out.println(authorizer.authorizeByResourceType(asker(line),
                    AclOperation.fromCode(Byte.parseByte(line[3])),
                    ResourceType.fromCode(Byte.parseByte(line[4]))));
                default -> throw new IllegalArgumentException(each);
            }
        }
    }
}
