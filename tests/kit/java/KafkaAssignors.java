// Kafka's own assignors, asked on standard input, answering on standard output, one line each.  Words are separated by
// blanks, lists within a word by commas; "-" is nothing.
//
//   topic NAME RACKS;RACKS;...                               a topic: for each partition the racks of its replicas
//   member ID INSTANCE RACK GENERATION TOPICS TOPIC:N,...    a member: what it wants, and what it says it owns
//   assign NAME                                              ask one; what was told is forgotten afterwards
//
// The answer: "given ID TOPIC:N,... ID TOPIC:N,...", or "raised CLASS message".
//
//   java -cp JARS KafkaAssignors.java

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

public class KafkaAssignors {
    static final Map<String, Node> NODES = new TreeMap<>();  // a broker for each rack

    static class Member {
        final String id;
        final Optional<String> instance;
        final Optional<String> rack;
        final int generation;
        final List<String> topics;
        final List<TopicPartition> owned;

        Member(String[] words) {
            id = words[1];
            instance = optional(words[2]);
            rack = optional(words[3]);
            generation = Integer.parseInt(words[4]);
            topics = list(words[5]);
            owned = list(words[6]).stream().map(KafkaAssignors::partition).collect(Collectors.toList());
        }

        // User data as a consumer makes it: by an assignor of its own, told what it was assigned last.
        @SuppressWarnings("removal")  // the constructor without which nothing can be told
        Subscription subscription(ConsumerPartitionAssignor own) {
            if (generation >= 0) {
                own.onAssignment(new Assignment(owned), new ConsumerGroupMetadata("group", generation, id, instance));
            }
            ByteBuffer data = own.subscriptionUserData(new HashSet<>(topics));
            Subscription made = new Subscription(topics, data, owned, generation, rack);
            made.setGroupInstanceId(instance);
            return made;
        }
    }

    static ConsumerPartitionAssignor assignor(String name) {
        switch (name) {
            case "range": return new RangeAssignor();
            case "roundrobin": return new RoundRobinAssignor();
            case "sticky": return new StickyAssignor();
            case "cooperative-sticky": return new CooperativeStickyAssignor();
            default: throw new IllegalArgumentException(name);
        }
    }

    static Optional<String> optional(String word) {
        return word.equals("-") ? Optional.empty() : Optional.of(word);
    }

    static List<String> list(String word) {
        return word.equals("-") ? List.of() : Arrays.asList(word.split(","));
    }

    static TopicPartition partition(String word) {
        int colon = word.lastIndexOf(':');
        return new TopicPartition(word.substring(0, colon), Integer.parseInt(word.substring(colon + 1)));
    }

    static List<PartitionInfo> topic(String name, String racks) {
        List<PartitionInfo> found = new ArrayList<>();
        for (String each : racks.split(";")) {
            Node[] replicas = list(each).stream().map(KafkaAssignors::node).toArray(Node[]::new);
            found.add(new PartitionInfo(name, found.size(), replicas.length > 0 ? replicas[0] : null, replicas, replicas));
        }
        return found;
    }

    static Node node(String rack) {
        return NODES.computeIfAbsent(rack, name -> new Node(NODES.size() + 1, "host", 9092, name));
    }

    static String ask(String name, List<PartitionInfo> partitions, List<Member> members) {
        Map<String, Subscription> subscriptions = new LinkedHashMap<>();
        for (Member member : members) {
            subscriptions.put(member.id, member.subscription(assignor(name)));
        }
        Cluster cluster = new Cluster("cluster", NODES.values(), partitions, Set.of(), Set.of());
        StringBuilder answer = new StringBuilder("given");
        assignor(name).assign(cluster, new GroupSubscription(subscriptions)).groupAssignment().forEach((id, given) -> {
            String words = given.partitions().stream()
                .map(each -> each.topic() + ":" + each.partition()).collect(Collectors.joining(","));
            answer.append(' ').append(id).append(' ').append(words.isEmpty() ? "-" : words);
        });
        return answer.toString();
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        PrintStream output = new PrintStream(System.out, false);
        List<PartitionInfo> partitions = new ArrayList<>();
        List<Member> members = new ArrayList<>();
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "topic" -> partitions.addAll(topic(words[1], words[2]));
                case "member" -> members.add(new Member(words));
                default -> {
                    try {
                        output.println(ask(words[1], partitions, members));
                    } catch (RuntimeException error) {
                        output.println("raised " + error.getClass().getSimpleName() + " " + error.getMessage());
                    }
                    output.flush();
                    partitions.clear();
                    members.clear();
                }
            }
        }
    }
}
