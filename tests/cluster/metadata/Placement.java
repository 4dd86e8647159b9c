import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.TreeMap;
import org.apache.kafka.admin.AdminUtils;
import org.apache.kafka.admin.BrokerMetadata;

/** Where Apache Kafka puts replicas: a line for each of many clusters that are drawn from a seed. */
public class Placement {
    public static void main(String[] arguments) throws Exception {
        Random draw = new Random(Long.parseLong(arguments[0]));
        int lines = Integer.parseInt(arguments[1]);
        var field = AdminUtils.class.getDeclaredField("RAND");
        field.setAccessible(true);
        Random theirs = (Random) field.get(null);
        for (int line = 0; line < lines; line++) {
            int racks = draw.nextInt(5);
            int size = 1 + draw.nextInt(9);
            List<BrokerMetadata> brokers = new ArrayList<>();
            StringBuilder described = new StringBuilder();
            for (int id = draw.nextInt(3); brokers.size() < size; id += 1 + draw.nextInt(3)) {
                String rack = racks == 0 ? null : "r" + draw.nextInt(racks);
                brokers.add(new BrokerMetadata(id, Optional.ofNullable(rack)));
                described.append(id).append(rack == null ? "" : ":" + rack).append(' ');
            }
            int count = 1 + draw.nextInt(2 * size + 3);
            int factor = 1 + draw.nextInt(size);
            boolean added = draw.nextBoolean();
            int first = added ? draw.nextInt(12) : 0;
            long seed = draw.nextLong();
            Random same = new Random(seed);
            int start = same.nextInt(size);
            int shift = added ? start : same.nextInt(size);
            theirs.setSeed(seed);
            Map<Integer, List<Integer>> placed = new TreeMap<>(added
                ? AdminUtils.assignReplicasToBrokers(brokers, count, factor, start, first)
                : AdminUtils.assignReplicasToBrokers(brokers, count, factor));
            System.out.println(described + "| " + count + " " + factor + " " + start + " " + shift
                + " " + first + " | " + placed.values().toString().replaceAll("[\\[,]", "")
                .replace("]]", "").replace("] ", "/"));
        }
    }
}
