import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.apache.kafka.coordinator.share.PersisterStateBatchCombiner;
import org.apache.kafka.server.share.persister.PersisterStateBatch;

/** What Apache Kafka makes of batches that are drawn from a seed: before|new|start|combined. */
public class Combiner {
    static Random draw;

    public static void main(String[] arguments) {
        draw = new Random(Long.parseLong(arguments[0]));
        for (int line = Integer.parseInt(arguments[1]); line > 0; line--) {
            List<PersisterStateBatch> before = drawn(), later = drawn();
            long start = draw.nextInt(3) == 0 ? -1 : draw.nextInt(25);
            String given = told(before) + "|" + told(later) + "|" + start;
            System.out.println(given + "|" + told(
                new PersisterStateBatchCombiner(before, later, start).combineStateBatches()));
        }
    }

    static List<PersisterStateBatch> drawn() {
        List<PersisterStateBatch> batches = new ArrayList<>();
        for (int count = draw.nextInt(6); count > 0; count--) {
            long first = draw.nextInt(24);
            byte state = (byte) new int[] {0, 2, 4}[draw.nextInt(3)];
            batches.add(new PersisterStateBatch(
                first, first + draw.nextInt(9), state, (short) (1 + draw.nextInt(3))));
        }
        return batches;
    }

    static String told(List<PersisterStateBatch> batches) {
        List<String> parts = new ArrayList<>();
        for (PersisterStateBatch each : batches)
            parts.add(each.firstOffset() + "-" + each.lastOffset() + ":" + each.deliveryCount() + ":" + each.deliveryState());
        return String.join(" ", parts);
    }
}
