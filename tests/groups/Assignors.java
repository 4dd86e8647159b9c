import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.SimpleAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/**
 * What Apache Kafka's assignors give the members of groups that are drawn from a seed and live on:
 * members come and go, change what they are subscribed to, topics come and grow.  A line for each
 * assignment: assignor|topics|members|answer.  With a third argument, "share", they are share
 * groups, and of some partitions the share coordinator does not know yet: each topic comes with those
 * that it knows, not with their number.
 */
public class Assignors {
    static class Member {
        String instance;
        Set<Integer> topics = new TreeSet<>();
        Map<Uuid, List<Integer>> assignment = new LinkedHashMap<>();
    }

    static Random draw;
    static List<Uuid> topics;
    static List<Integer> counts;
    static Map<String, Member> members;
    static List<Integer> known;
    static boolean alike;
    static boolean share;

    public static void main(String[] arguments) {
        draw = new Random(Long.parseLong(arguments[0]));
        int lines = Integer.parseInt(arguments[1]);
        share = arguments.length > 2;
        for (int line = 0; line < lines; ) {
            begin();
            PartitionAssignor assignor = share ? new SimpleAssignor()
                : draw.nextInt(4) == 0 ? new RangeAssignor() : new UniformAssignor();
            for (int step = 0; step < 1 + draw.nextInt(6) && line < lines; step++, line++) {
                change();
                System.out.println(assign(assignor));
            }
        }
    }

    static void begin() {
        topics = new ArrayList<>();
        counts = new ArrayList<>();
        known = new ArrayList<>();
        members = new LinkedHashMap<>();
        alike = draw.nextBoolean();
        for (int topic = draw.nextInt(draw.nextInt(10) == 0 ? 20 : 5); topic >= 0; topic--) addTopic();
        for (int member = draw.nextInt(draw.nextInt(10) == 0 ? 20 : 6); member >= 0; member--) addMember();
    }

    static void addTopic() {
        topics.add(new Uuid(draw.nextLong(), draw.nextLong()));
        known.add(0);
        counts.add(1 + draw.nextInt(draw.nextInt(8) == 0 ? 60 : 12));
    }

    static void addMember() {
        Member member = new Member();
        if (!share && draw.nextInt(4) == 0) member.instance = "i" + draw.nextInt(1000);
        subscribe(member);
        members.put(Long.toString(draw.nextLong() >>> draw.nextInt(60), 36), member);
    }

    static void subscribe(Member member) {
        for (int topic = 0; topic < topics.size(); topic++)
            if (alike || draw.nextInt(3) > 0) member.topics.add(topic);
    }

    static void change() {
        switch (draw.nextInt(6)) {
            case 0 -> addMember();
            case 1 -> {
                List<String> ids = new ArrayList<>(members.keySet());
                if (ids.size() > 1) members.remove(ids.get(draw.nextInt(ids.size())));
            }
            case 2 -> {
                addTopic();
                for (Member member : members.values())
                    if (alike || draw.nextBoolean()) member.topics.add(topics.size() - 1);
            }
            case 3 -> {
                int topic = draw.nextInt(topics.size());
                counts.set(topic, counts.get(topic) + 1 + draw.nextInt(5));
            }
            case 4 -> {
                int topic = draw.nextInt(topics.size());
                for (Member member : members.values())
                    if (alike || draw.nextBoolean()) member.topics.remove(topic);
            }
            default -> { }
        }
    }

    static String assign(PartitionAssignor assignor) {
        StringBuilder line = new StringBuilder(assignor.name()).append('|');
        Map<Uuid, Integer> partitions = new HashMap<>();
        Map<Uuid, Set<Integer>> assignable = new HashMap<>();
        for (int topic = 0; topic < topics.size(); topic++) {
            partitions.put(topics.get(topic), counts.get(topic));
            line.append(topic == 0 ? "" : " ").append(hex(topics.get(topic))).append('=');
            if (share) assignable.put(topics.get(topic), learn(topic));
            line.append(share ? join(assignable.get(topics.get(topic)), ".") : counts.get(topic));
        }
        line.append('|');
        Map<String, MemberSubscriptionAndAssignmentImpl> spec = new HashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        Set<Set<Integer>> subscriptions = new HashSet<>();
        String space = "";
        for (Map.Entry<String, Member> each : members.entrySet()) {
            Member member = each.getValue();
            subscriptions.add(member.topics);
            Set<Uuid> subscribed = new HashSet<>();
            for (int topic : member.topics) subscribed.add(topics.get(topic));
            Map<Uuid, Set<Integer>> assignment = new HashMap<>();
            member.assignment.forEach((topic, list) -> {
                assignment.put(topic, new HashSet<>(list));
                for (int partition : list)
                    owners.computeIfAbsent(topic, key -> new HashMap<>()).put(partition, each.getKey());
            });
            spec.put(each.getKey(), new MemberSubscriptionAndAssignmentImpl(Optional.empty(),
                Optional.ofNullable(member.instance), subscribed, new Assignment(assignment)));
            line.append(space).append(each.getKey()).append(':').append(member.instance == null ? "" : member.instance)
                .append(':').append(join(member.topics, ",")).append(':').append(told(member.assignment));
            space = " ";
        }
        SubscriptionType type =
            subscriptions.size() == 1 ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        SubscribedTopicDescriber describer = new SubscribedTopicDescriber() {
            public int numPartitions(Uuid topic) { return partitions.getOrDefault(topic, -1); }
            public Set<String> racksForPartition(Uuid topic, int partition) { return Set.of(); }
        };
        GroupSpecImpl group = new GroupSpecImpl(Collections.unmodifiableMap(spec), type,
            share ? Map.of() : owners, share ? Optional.of(assignable) : Optional.empty());
        Map<String, MemberAssignment> answer = assignor.assign(group, describer).members();
        line.append('|');
        space = "";
        for (Map.Entry<String, Member> each : members.entrySet()) {
            MemberAssignment assigned = answer.get(each.getKey());
            Member member = each.getValue();
            member.assignment = new LinkedHashMap<>();
            if (assigned == null) continue;
            assigned.partitions().forEach((topic, set) -> member.assignment.put(topic, new ArrayList<>(set)));
            line.append(space).append(each.getKey()).append(':').append(told(member.assignment));
            space = " ";
        }
        return line.toString();
    }

    /** What the share coordinator knows of a topic: all that it knew, and some that are new. */
    static Set<Integer> learn(int topic) {
        Set<Integer> these = new TreeSet<>();
        for (int partition = 0; partition < counts.get(topic); partition++)
            if (partition < known.get(topic) || draw.nextInt(3) > 0) these.add(partition);
        known.set(topic, counts.get(topic));
        return these;
    }

    static String hex(Uuid id) {
        return String.format("%016x%016x", id.getMostSignificantBits(), id.getLeastSignificantBits());
    }

    static String told(Map<Uuid, List<Integer>> assignment) {
        List<String> parts = new ArrayList<>();
        assignment.forEach((topic, list) -> parts.add(topics.indexOf(topic) + "=" + join(list, ".")));
        return String.join(",", parts);
    }

    static String join(Collection<Integer> numbers, String separator) {
        return String.join(separator, numbers.stream().map(String::valueOf).toList());
    }
}
