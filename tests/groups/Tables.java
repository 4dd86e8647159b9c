import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.PriorityQueue;
import java.util.Random;

/**
 * In which order Java's HashMap is walked, and what its PriorityQueue gives next, after steps that
 * are drawn from a seed.  A line for each:
 *
 *   map|capacity|steps|keys     capacity: that is asked for, or nothing; steps: +KEY put, ^KEY
 *                               computeIfAbsent, -KEY remove
 *   set|keys|keys               new HashSet<>(keys), which is walked
 *   queue|steps|items           steps: +WEIGHT, or - for the first one; items in the order in which
 *                               they came out, each by the how manieth it was that came in
 *
 * Keys are few, and far apart or near, so that buckets are crowded in tables of any size, but never
 * so that one becomes a tree: of that the tables know nothing.
 */
public class Tables {
    static Random draw;

    public static void main(String[] arguments) {
        draw = new Random(Long.parseLong(arguments[0]));
        int lines = Integer.parseInt(arguments[1]);
        for (int line = 0; line < lines; line++) {
            System.out.println(switch (draw.nextInt(4)) {
                case 0 -> set();
                case 1 -> queue();
                default -> map();
            });
        }
    }

    static int key(int far) {
        return draw.nextInt(3) > 0 ? draw.nextInt(60) : draw.nextInt(24) * far;
    }

    static int far() {
        return draw.nextBoolean() ? 16 : 1 << 16;
    }

    static String map() {
        int capacity = draw.nextInt(3) > 0 ? 0 : 1 + draw.nextInt(80);
        HashMap<Integer, Boolean> map = capacity == 0 ? new HashMap<>() : new HashMap<>(capacity);
        List<String> steps = new ArrayList<>();
        int far = far();
        int kind = draw.nextInt(3);
        for (int step = draw.nextInt(70); step > 0; step--) {
            int key = key(far);
            if (draw.nextInt(5) == 0) {
                map.remove(key);
                steps.add("-" + key);
            } else if (kind == 0 || kind == 2 && draw.nextBoolean()) {
                map.put(key, true);
                steps.add("+" + key);
            } else {
                map.computeIfAbsent(key, each -> true);
                steps.add("^" + key);
            }
        }
        String asked = capacity == 0 ? "" : "" + capacity;
        return "map|" + asked + "|" + String.join(" ", steps) + "|" + said(map.keySet());
    }

    static String set() {
        List<Integer> keys = new ArrayList<>();
        int far = far();
        for (int count = draw.nextInt(60); count > 0; count--) {
            int key = key(far);
            if (!keys.contains(key)) {
                keys.add(key);
            }
        }
        return "set|" + said(keys) + "|" + said(new HashSet<>(keys));
    }

    static String queue() {
        PriorityQueue<int[]> queue = new PriorityQueue<>(Comparator.comparingInt(item -> item[0]));
        List<String> steps = new ArrayList<>();
        List<Integer> out = new ArrayList<>();
        int came = 0;
        for (int step = draw.nextInt(60); step > 0; step--) {
            if (!queue.isEmpty() && draw.nextInt(3) == 0) {
                steps.add("-");
                out.add(queue.poll()[1]);
            } else {
                int weight = draw.nextInt(6);
                steps.add("+" + weight);
                queue.add(new int[] {weight, came++});
            }
        }
        while (!queue.isEmpty()) {
            steps.add("-");
            out.add(queue.poll()[1]);
        }
        return "queue|" + String.join(" ", steps) + "|" + said(out);
    }

    static String said(Iterable<Integer> numbers) {
        List<String> texts = new ArrayList<>();
        numbers.forEach(each -> texts.add("" + each));
        return String.join(" ", texts);
    }
}
