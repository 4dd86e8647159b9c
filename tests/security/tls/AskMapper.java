import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

/** Answers what standard input asks: rules and a name, apart by a tab; a line for each. */
public class AskMapper {
    static String answer(String rules, String name) {
        SslPrincipalMapper mapper;
        try {
            mapper = SslPrincipalMapper.fromRules(rules);
        } catch (RuntimeException e) {
            return "bad rules";
        }
        try {
            return "name " + mapper.getName(name);
        } catch (java.io.IOException e) {
            return "no rule";
        } catch (RuntimeException e) {
            return "bad reference";
        }
    }

    public static void main(String[] arguments) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var out = new StringBuilder();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] asked = line.split("\t", -1);
            out.append(answer(asked[0], asked[1])).append('\n');
        }
        System.out.write(out.toString().getBytes(StandardCharsets.UTF_8));
        System.out.flush();
    }
}
