import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.coordinator.group.api.streams.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.streams.assignor.TopologyDescriber;
import org.apache.kafka.coordinator.group.streams.assignor.AssignmentConfigsImpl;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.coordinator.group.streams.assignor.MemberMetadataAndStateImpl;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;

/**
 * What Apache Kafka's assignor gives the members of streams groups that are drawn from a seed and
 * live on: processes and their threads come and go, members report the offsets of tasks, input
 * topics grow, and how many standbys there are to be changes.  Half of the groups have tags for the
 * spread of standbys, which the assignor does not use.
 * A line for each assignment: standbys|subtopologies|members|answer.
 */
public class StreamsAssignor {
    static class Member {
        String process;
        Map<String, Set<Integer>> active = new HashMap<>();
        Map<String, Set<Integer>> standby = new HashMap<>();
        Map<String, Map<Integer, Long>> offsets = new HashMap<>();
    }

    record Subtopology(int tasks, boolean stateful) { }

    static Random draw;
    static TreeMap<String, Subtopology> subtopologies;
    static Map<String, Member> members;
    static List<String> processes;
    static int standbys;
    static List<String> tags;

    public static void main(String[] arguments) {
        draw = new Random(Long.parseLong(arguments[0]));
        int lines = Integer.parseInt(arguments[1]);
        for (int line = 0; line < lines; ) {
            begin();
            for (int step = 0; step < 1 + draw.nextInt(8) && line < lines; step++, line++) {
                change();
                System.out.println(assign());
            }
        }
    }

    static void begin() {
        subtopologies = new TreeMap<>();
        members = new LinkedHashMap<>();
        processes = new ArrayList<>();
        standbys = draw.nextInt(4);
        tags = draw.nextBoolean() ? List.of("zone") : List.of();
        for (int number = draw.nextInt(draw.nextInt(10) == 0 ? 15 : 4); number >= 0; number--)
            subtopologies.put(Integer.toString(number), drawSubtopology());
        for (int process = draw.nextInt(draw.nextInt(10) == 0 ? 20 : 5); process >= 0; process--) addProcess();
        for (int member = draw.nextInt(draw.nextInt(10) == 0 ? 30 : 6); member >= 0; member--) addMember();
    }

    static Subtopology drawSubtopology() {
        return new Subtopology(1 + draw.nextInt(draw.nextInt(8) == 0 ? 40 : 9), draw.nextInt(3) > 0);
    }

    static String drawName() {
        return Long.toString(draw.nextLong() >>> draw.nextInt(60), 36);
    }

    static void addProcess() {
        processes.add(drawName());
    }

    static void addMember() {
        Member member = new Member();
        member.process = processes.get(draw.nextInt(processes.size()));
        members.put(drawName(), member);
    }

    static void change() {
        switch (draw.nextInt(10)) {
            case 0, 1 -> addMember();
            case 2 -> {
                addProcess();
                addMember();
            }
            case 3 -> {
                List<String> ids = new ArrayList<>(members.keySet());
                if (ids.size() > 1) members.remove(ids.get(draw.nextInt(ids.size())));
            }
            case 4 -> {
                String process = processes.get(draw.nextInt(processes.size()));
                if (members.values().stream().anyMatch(member -> !member.process.equals(process)))
                    members.values().removeIf(member -> member.process.equals(process));
            }
            case 5 -> {
                List<String> ids = new ArrayList<>(subtopologies.keySet());
                subtopologies.put(ids.get(draw.nextInt(ids.size())), drawSubtopology());
            }
            case 6 -> standbys = draw.nextInt(4);
            case 7, 8 -> report();
            default -> { }
        }
    }

    /** A member reports the offsets of some tasks, its own or others. */
    static void report() {
        List<String> ids = new ArrayList<>(members.keySet());
        Member member = members.get(ids.get(draw.nextInt(ids.size())));
        member.offsets = new HashMap<>();
        List<String> names = new ArrayList<>(subtopologies.keySet());
        for (int count = draw.nextInt(6); count > 0; count--) {
            String name = names.get(draw.nextInt(names.size()));
            int partition = draw.nextInt(subtopologies.get(name).tasks);
            member.offsets.computeIfAbsent(name, __ -> new HashMap<>()).put(partition, (long) draw.nextInt(3));
        }
    }

    static String assign() {
        List<String> described = new ArrayList<>();
        subtopologies.forEach((id, it) -> described.add(id + "=" + it.tasks + (it.stateful ? "s" : "")));
        List<String> told = new ArrayList<>();
        Map<String, MemberMetadataAndStateImpl> specs = new HashMap<>();
        members.forEach((id, member) -> {
            Map<String, String> own = draw.nextBoolean() ? Map.of("zone", "z" + draw.nextInt(3)) : Map.of();
            specs.put(id, new MemberMetadataAndStateImpl(Optional.empty(), Optional.empty(), member.process, own,
                member.active, member.standby, Map.of(), member.offsets, Map.of()));
            told.add(id + ":" + member.process + ":" + listed(member.active) + ":" + listed(member.standby)
                + ":" + reported(member.offsets));
        });
        TopologyDescriber describer = new TopologyDescriber() {
            public List<String> subtopologies() { return List.copyOf(subtopologies.keySet()); }
            public int maxNumInputPartitions(String id) throws NoSuchElementException { return subtopologies.get(id).tasks; }
            public boolean isStateful(String id) { return subtopologies.get(id).stateful; }
        };
        AssignmentConfigsImpl configs = new AssignmentConfigsImpl(standbys, tags);
        Map<String, MemberAssignment> answer =
            new StickyTaskAssignor().assign(new GroupSpecImpl(specs, configs), describer).members();
        List<String> given = new ArrayList<>();
        members.forEach((id, member) -> {
            MemberAssignment assigned = answer.get(id);
            member.active = copied(assigned.activeTasks());
            member.standby = copied(assigned.standbyTasks());
            given.add(id + ":" + listed(member.active) + ":" + listed(member.standby));
        });
        return standbys + "|" + String.join(" ", described) + "|" + String.join(" ", told) + "|"
            + String.join(" ", given);
    }

    static Map<String, Set<Integer>> copied(Map<String, Set<Integer>> tasks) {
        Map<String, Set<Integer>> copy = new HashMap<>();
        tasks.forEach((id, these) -> copy.put(id, new HashSet<>(these)));
        return copy;
    }

    static String reported(Map<String, Map<Integer, Long>> offsets) {
        List<String> parts = new ArrayList<>();
        new TreeMap<>(offsets).forEach((id, these) -> parts.add(id + "="
            + String.join(".", new TreeMap<>(these).entrySet().stream()
                .map(entry -> entry.getKey() + ">" + entry.getValue()).toList())));
        return String.join(",", parts);
    }

    static String listed(Map<String, Set<Integer>> tasks) {
        List<String> parts = new ArrayList<>();
        new TreeMap<>(tasks).forEach((id, these) -> parts.add(id + "="
            + String.join(".", new TreeSet<>(these).stream().map(String::valueOf).toList())));
        return String.join(",", parts);
    }
}
