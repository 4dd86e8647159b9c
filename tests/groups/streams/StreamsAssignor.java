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
import org.apache.kafka.coordinator.group.streams.assignor.AssignmentMemberSpec;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.coordinator.group.streams.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;
import org.apache.kafka.coordinator.group.streams.assignor.TopologyDescriber;

/**
 * What Apache Kafka's assignor gives the members of streams groups that are drawn from a seed and
 * live on: processes and their threads come and go, input topics grow, and how many standbys there
 * are to be changes.  A line for each assignment: standbys|subtopologies|members|answer.
 */
public class StreamsAssignor {
    static class Member {
        String process;
        Map<String, Set<Integer>> active = new HashMap<>();
        Map<String, Set<Integer>> standby = new HashMap<>();
    }

    record Subtopology(int tasks, boolean stateful) { }

    static Random draw;
    static TreeMap<String, Subtopology> subtopologies;
    static Map<String, Member> members;
    static List<String> processes;
    static int standbys;

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
        switch (draw.nextInt(8)) {
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
            default -> { }
        }
    }

    static String assign() {
        List<String> described = new ArrayList<>();
        subtopologies.forEach((id, it) -> described.add(id + "=" + it.tasks + (it.stateful ? "s" : "")));
        List<String> told = new ArrayList<>();
        Map<String, AssignmentMemberSpec> specs = new HashMap<>();
        members.forEach((id, member) -> {
            specs.put(id, new AssignmentMemberSpec(Optional.empty(), Optional.empty(), member.active,
                member.standby, Map.of(), member.process, Map.of(), Map.of(), Map.of()));
            told.add(id + ":" + member.process + ":" + listed(member.active) + ":" + listed(member.standby));
        });
        TopologyDescriber describer = new TopologyDescriber() {
            public List<String> subtopologies() { return List.copyOf(subtopologies.keySet()); }
            public int maxNumInputPartitions(String id) throws NoSuchElementException { return subtopologies.get(id).tasks; }
            public boolean isStateful(String id) { return subtopologies.get(id).stateful; }
        };
        Map<String, String> configs = Map.of("num.standby.replicas", Integer.toString(standbys));
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

    static String listed(Map<String, Set<Integer>> tasks) {
        List<String> parts = new ArrayList<>();
        new TreeMap<>(tasks).forEach((id, these) -> parts.add(id + "="
            + String.join(".", new TreeSet<>(these).stream().map(String::valueOf).toList())));
        return String.join(",", parts);
    }
}
