import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Apache Kafka's tools one after another, so that only the first one waits for Java to start.
 *
 * <p>Each line of the input is a request: the class, its standard input and its arguments, in Base64
 * and separated by blanks. The response is a line with the exit status and the tool's stdout and
 * stderr, in Base64. The program ends at the end of its input.
 */
public final class ToolServer {
    /** Thrown where a tool exits. Output of a tool that catches it is dropped. */
    private static final class Ended extends Error {
        final int status;

        Ended(int status) {
            super("exit " + status, null, false, false);
            this.status = status;
        }
    }

    /** Writes to the running tool's stream; needed because Scala keeps the first System.out. */
    private static final class Switch extends OutputStream {
        volatile ByteArrayOutputStream target = new ByteArrayOutputStream();

        @Override
        public void write(int value) {
            if (isFromThisRun()) {
                target.write(value);
            }
        }

        @Override
        public void write(byte[] values, int offset, int length) {
            if (isFromThisRun()) {
                target.write(values, offset, length);
            }
        }
    }

    /** The run that a thread belongs to: a tool's threads have that of the thread that made them. */
    private static final InheritableThreadLocal<Integer> RUN = new InheritableThreadLocal<>();

    private static volatile int run = 0;

    /** Whether the tool runs still. A client that an earlier tool has not closed may go on logging. */
    private static boolean isFromThisRun() {
        Integer started = RUN.get();
        return firstStatus == null && started != null && started == run;
    }

    private static final Switch OUTPUT = new Switch();
    private static final Switch ERRORS = new Switch();
    private static final List<Runnable> HOOKS = new ArrayList<>();
    private static volatile Integer firstStatus;

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        BufferedReader requests =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        System.setOut(new PrintStream(OUTPUT, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(ERRORS, true, StandardCharsets.UTF_8));
        Exit.setExitProcedure((status, message) -> end(status));
        Exit.setHaltProcedure((status, message) -> end(status));
        Exit.setShutdownHookAdder((name, hook) -> HOOKS.add(hook));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            answers.println(answer(line.split(" ", -1)));
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static void end(int status) {
        if (firstStatus == null) {
            System.out.flush();
            System.err.flush();
            firstStatus = status;
        }
        throw new Ended(status);
    }

    private static String answer(String[] request) {
        OUTPUT.target = new ByteArrayOutputStream();
        ERRORS.target = new ByteArrayOutputStream();
        firstStatus = null;
        RUN.set(++run);
        System.setIn(new ByteArrayInputStream(Base64.getDecoder().decode(request[1])));
        String[] arguments = new String[request.length - 2];
        for (int index = 0; index < arguments.length; index++) {
            arguments[index] = decoded(request[index + 2]);
        }
        int status = run(decoded(request[0]), arguments);
        return status + " " + encoded(OUTPUT.target) + " " + encoded(ERRORS.target);
    }

    private static int run(String className, String[] arguments) {
        try {
            Class.forName(className)
                    .getMethod("main", String[].class)
                    .invoke(null, (Object) arguments);
        } catch (InvocationTargetException thrown) {
            if (!(thrown.getCause() instanceof Ended)) {
                System.err.print("Exception in thread \"main\" ");
                thrown.getCause().printStackTrace();
                failed();
            }
        } catch (ReflectiveOperationException missing) {
            missing.printStackTrace();
            failed();
        }
        for (Runnable hook : HOOKS) {
            hook.run();
        }
        HOOKS.clear();
        return firstStatus == null ? 0 : firstStatus;
    }

    private static void failed() {
        System.err.flush();
        if (firstStatus == null) {
            firstStatus = 1;
        }
    }

    private static String decoded(String text) {
        return new String(Base64.getDecoder().decode(text), StandardCharsets.UTF_8);
    }

    private static String encoded(ByteArrayOutputStream written) {
        return Base64.getEncoder().encodeToString(written.toByteArray());
    }
}
