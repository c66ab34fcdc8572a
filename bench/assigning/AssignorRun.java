import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/**
 * Runs one of Kafka's own server-side assignors over groups that it reads, and says what it decided and how long it took.
 *
 * Arguments: the assignor (uniform, range), and for how many seconds to repeat each group (0: once). Standard input has
 * one group after another, in lines of fields with a tab between them:
 *
 *   topic   NUMBER  PARTITIONS
 *   member  ID      INSTANCE-ID  TOPIC,TOPIC,...  TOPIC:PARTITION,TOPIC:PARTITION,...
 *   go
 *
 * For each group it answers with the same kind of lines: "time", the median in nanoseconds of processor time; "member",
 * its id, its partitions; "done".
 */
public class AssignorRun {
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

    private final Map<Uuid, Integer> counts = new HashMap<>();
    private final Map<String, MemberSubscriptionAndAssignmentImpl> members = new TreeMap<>();
    private final Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
    private final Set<Set<Uuid>> subscriptions = new HashSet<>();

    public static void main(String[] args) throws Exception {
        ConsumerGroupPartitionAssignor assignor = args[0].equals("range") ? new RangeAssignor() : new UniformAssignor();
        double seconds = Double.parseDouble(args[1]);
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        AssignorRun group = new AssignorRun();
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] fields = line.split("\t", -1);
            switch (fields[0]) {
                case "topic" -> group.counts.put(topic(fields[1]), Integer.parseInt(fields[2]));
                case "member" -> group.add(fields);
                default -> {
                    group.run(assignor, seconds);
                    group = new AssignorRun();
                }
            }
        }
    }

    private static Uuid topic(String number) {
        return new Uuid(0L, 1L + Long.parseLong(number));
    }

    private void add(String[] fields) {
        Set<Uuid> topics = new HashSet<>();
        for (String one : parts(fields[3])) {
            topics.add(topic(one));
        }
        Map<Uuid, Set<Integer>> current = new HashMap<>();
        for (String one : parts(fields[4])) {
            String[] where = one.split(":");
            int partition = Integer.parseInt(where[1]);
            current.computeIfAbsent(topic(where[0]), __ -> new HashSet<>()).add(partition);
            owners.computeIfAbsent(topic(where[0]), __ -> new HashMap<>()).put(partition, fields[1]);
        }
        Optional<String> instanceId = fields[2].isEmpty() ? Optional.empty() : Optional.of(fields[2]);
        Assignment assignment = new Assignment(Collections.unmodifiableMap(current));
        subscriptions.add(topics);
        members.put(
            fields[1], new MemberSubscriptionAndAssignmentImpl(Optional.empty(), instanceId, topics, assignment));
    }

    private static String[] parts(String list) {
        return list.isEmpty() ? new String[0] : list.split(",");
    }

    private void run(ConsumerGroupPartitionAssignor assignor, double seconds) {
        SubscriptionType type =
            subscriptions.size() > 1 ? SubscriptionType.HETEROGENEOUS : SubscriptionType.HOMOGENEOUS;
        GroupSpec spec = new GroupSpecImpl(members, type, owners);
        SubscribedTopicDescriber topics = new SubscribedTopicDescriber() {
            @Override
            public int numPartitions(Uuid topicId) {
                return counts.getOrDefault(topicId, -1);
            }

            @Override
            public Set<String> racksForPartition(Uuid topicId, int partition) {
                return Collections.emptySet();
            }
        };
        List<Long> times = new ArrayList<>();
        GroupAssignment decided;
        long end = System.nanoTime() + (long) (seconds * 1e9);
        do {
            long before = THREADS.getCurrentThreadCpuTime();
            decided = assignor.assign(spec, topics);
            times.add(THREADS.getCurrentThreadCpuTime() - before);
        } while (System.nanoTime() < end);
        // The first half warms the compiler up.
        List<Long> warm = new ArrayList<>(times.subList(times.size() / 2, times.size()));
        Collections.sort(warm);
        StringBuilder answer = new StringBuilder("time\t" + warm.get(warm.size() / 2) + "\n");
        for (String member : members.keySet()) {
            answer.append("member\t").append(member).append("\t");
            List<String> partitions = new ArrayList<>();
            if (decided.members().containsKey(member)) {
                decided.members().get(member).partitions().forEach((topicId, indexes) -> {
                    for (int partition : new TreeSet<>(indexes)) {
                        partitions.add((topicId.getLeastSignificantBits() - 1) + ":" + partition);
                    }
                });
            }
            answer.append(String.join(",", partitions)).append("\n");
        }
        System.out.print(answer.append("done\n"));
    }
}
