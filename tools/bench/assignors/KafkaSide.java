// Kafka's assignors on the scale: told which group to prepare, then to measure it, on standard input.
//
//   prepare ASSIGNOR MEMBERS PER_MEMBER TOPICS SUBSCRIPTIONS EVENT     -> ready
//   run                                                               -> took NANOSECONDS PARTITIONS BYTES
//
// The groups are those of groups.py.  Measured: from every member's Subscription to every member's encoded assignment.
//
//   java -cp JARS KafkaSide.java

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.AbstractPartitionAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.TopicPartition;

public class KafkaSide {
    static String assignor;
    static String shape = "";
    static Map<String, Integer> counts;
    static Map<String, List<TopicPartition>> base;
    static Map<String, Subscription> group;

    static AbstractPartitionAssignor fresh() {
        switch (assignor) {
            case "range": return new RangeAssignor();
            case "roundrobin": return new RoundRobinAssignor();
            case "sticky": return new StickyAssignor();
            case "cooperative-sticky": return new CooperativeStickyAssignor();
            default: throw new IllegalArgumentException(assignor);
        }
    }

    static String member(int number) {
        return String.format("member-%05d", number);
    }

    static int every(String subscriptions) {
        switch (subscriptions) {
            case "equal": return 1;
            case "unequal": return 5;
            default: throw new IllegalArgumentException(subscriptions);
        }
    }

    static List<String> wishes(int kind, int topics, int every) {
        List<String> found = new ArrayList<>();
        for (int topic = 0; topic < topics; topic++) {
            if (every == 1 || topic % every != kind) {
                found.add(String.format("topic-%04d", topic));
            }
        }
        return found;
    }

    @SuppressWarnings("removal")  // the constructor without which no assignor can be told what it was assigned
    static Subscription subscription(String id, List<String> topics, List<TopicPartition> owned) {
        AbstractPartitionAssignor own = fresh();
        int generation = owned == null ? -1 : 1;
        List<TopicPartition> had = owned == null ? List.of() : owned;
        if (owned != null) {
            own.onAssignment(new Assignment(had), new ConsumerGroupMetadata("group", generation, id, Optional.empty()));
        }
        ByteBuffer data = own.subscriptionUserData(new HashSet<>(topics));
        return new Subscription(topics, data, had, generation, Optional.empty());
    }

    static void prepare(String[] words) {
        int members = Integer.parseInt(words[2]);
        int partitions = members * Integer.parseInt(words[3]);
        int topics = Integer.parseInt(words[4]);
        int every = every(words[5]);
        String event = words[6];
        group = null;
        String asked = String.join(" ", List.of(words).subList(1, 6));
        if (!asked.equals(shape)) {
            base = null;
            shape = asked;
        }
        assignor = words[1];
        counts = new HashMap<>();
        for (int topic = 0; topic < topics; topic++) {
            counts.put(String.format("topic-%04d", topic), partitions / topics + (topic < partitions % topics ? 1 : 0));
        }
        List<List<String>> wanted = new ArrayList<>();
        for (int kind = 0; kind < every; kind++) {
            wanted.add(wishes(kind, topics, every));
        }
        Map<String, Subscription> all = new HashMap<>();
        for (int number = 0; number < members; number++) {
            List<String> mine = new ArrayList<>(wanted.get(number % wanted.size()));
            all.put(member(number), subscription(member(number), mine, null));
        }
        if (!event.equals("fresh")) {
            if (base == null) {
                base = fresh().assign(counts, all);
            }
            for (int number = 0; number < members; number++) {
                String id = member(number);
                all.put(id, subscription(id, all.get(id).topics(), base.get(id)));
            }
        }
        if (event.equals("joins")) {
            all.put(member(members), subscription(member(members), new ArrayList<>(wanted.get(members % wanted.size())), null));
        } else if (event.equals("leaves")) {
            all.remove(member(members / 2));
        }
        group = all;
    }

    static String run() {
        for (Subscription each : group.values()) {
            if (each.userData() != null) {
                each.userData().rewind();
            }
        }
        System.gc();
        long began = System.nanoTime();
        Map<String, List<TopicPartition>> given = fresh().assign(counts, group);
        Map<String, ByteBuffer> encoded = new HashMap<>();
        given.forEach((id, mine) -> encoded.put(id, ConsumerProtocol.serializeAssignment(new Assignment(mine))));
        long took = System.nanoTime() - began;
        long bytes = encoded.values().stream().mapToLong(ByteBuffer::remaining).sum();
        long partitions = given.values().stream().mapToLong(List::size).sum();
        return "took " + took + " " + partitions + " " + bytes;
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("prepare")) {
                prepare(words);
                System.out.println("ready");
            } else {
                System.out.println(run());
            }
            System.out.flush();
        }
    }
}
