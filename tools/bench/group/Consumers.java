// Java KafkaConsumers in one process, told what to do on standard input, telling their callbacks on standard output.
//
//   open NAME GROUP HOW     make a consumer: HOW is a partition.assignment.strategy, or "consumer" for the newer protocol
//   join NAME               subscribe and poll, from now on
//   close NAME              KafkaConsumer.close
//
//   java -cp JARS Consumers.java BOOTSTRAP TOPIC SESSION_MS HEARTBEAT_MS
//
// A callback is a line: assigned|revoked|lost NAME EPOCH_MICROSECONDS P,P,P

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public class Consumers {
    static final Duration POLL = Duration.ofMillis(100);

    static class Member extends Thread implements ConsumerRebalanceListener {
        final String name;
        final String topic;
        final KafkaConsumer<byte[], byte[]> consumer;
        final CountDownLatch told = new CountDownLatch(1);
        volatile boolean closing;

        Member(String name, String topic, Properties properties) {
            this.name = name;
            this.topic = topic;
            this.consumer = new KafkaConsumer<>(properties);
            setDaemon(true);
        }

        @Override
        public void run() {
            try {
                told.await();
                consumer.subscribe(List.of(topic), this);
                while (!closing) {
                    consumer.poll(POLL);
                }
            } catch (WakeupException woken) {
                // to be closed
            } catch (Exception error) {
                say("error " + name + " " + error);
            }
            consumer.close();
        }

        void close() {
            closing = true;
            told.countDown();
            consumer.wakeup();
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            callback("assigned", partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            callback("revoked", partitions);
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            callback("lost", partitions);
        }

        void callback(String what, Collection<TopicPartition> partitions) {
            long at = ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now());
            if (!partitions.isEmpty()) {
                say(what + " " + name + " " + at + " " + partitions.stream()
                    .map(each -> Integer.toString(each.partition())).collect(Collectors.joining(",")));
            }
        }
    }

    static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    static Properties properties(String bootstrap, String group, String how, String session, String heartbeat) {
        Properties all = new Properties();
        all.put("bootstrap.servers", bootstrap);
        all.put("group.id", group);
        all.put("enable.auto.commit", "false");
        all.put("auto.offset.reset", "earliest");
        all.put("key.deserializer", ByteArrayDeserializer.class.getName());
        all.put("value.deserializer", ByteArrayDeserializer.class.getName());
        if (how.equals("consumer")) {
            all.put("group.protocol", "consumer");  // session and heartbeat are the broker's to say
        } else {
            all.put("group.protocol", "classic");
            all.put("partition.assignment.strategy", how);
            all.put("session.timeout.ms", session);
            all.put("heartbeat.interval.ms", heartbeat);
        }
        return all;
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Member> members = new ConcurrentHashMap<>();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        say("ready");
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "open" -> {
                    Member member = new Member(words[1], arguments[1],
                        properties(arguments[0], words[2], words[3], arguments[2], arguments[3]));
                    members.put(words[1], member);
                    member.start();
                    say("opened " + words[1]);
                }
                case "join" -> members.get(words[1]).told.countDown();
                case "close" -> members.remove(words[1]).close();
                default -> say("error - unknown command " + words[0]);
            }
        }
    }
}
