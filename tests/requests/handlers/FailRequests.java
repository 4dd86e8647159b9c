import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.AbstractRequest;

/** For each line `api key, version, request in hex`, prints the response to a failure, in hex. */
public class FailRequests {
    public static void main(String[] arguments) throws Exception {
        var lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] parts = line.split(" ", -1);
            short version = Short.parseShort(parts[1]);
            var body = new ByteBufferAccessor(ByteBuffer.wrap(HexFormat.of().parseHex(parts[2])));
            var key = ApiKeys.forId(Integer.parseInt(parts[0]));
            var request = AbstractRequest.parseRequest(key, version, body).request;
            Throwable failure = arguments[0].equals("timeout")
                ? new TimeoutException() : Errors.UNKNOWN_SERVER_ERROR.exception();
            var response = request.getErrorResponse(0, failure);
            var bytes = MessageUtil.toByteBufferAccessor(response.data(), version).buffer();
            System.out.println(HexFormat.of().formatHex(bytes.array(), 0, bytes.limit()));
        }
    }
}
