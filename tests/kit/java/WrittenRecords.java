import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.utils.Utils;

/**
 * What Kafka's own classes make of bytes: an answer a line.  "murmur2 HEX", "batches HEX", "topic BOOTSTRAP NAME PARTITION END",
 * "committed BOOTSTRAP NAME PARTITION": up to the last stable offset.
 * A record is TIME,KEY,VALUE and for each header ,NAME=VALUE; a batch is CODEC PRODUCER EPOCH SEQUENCE OFFSET, then its records.
 */
public class WrittenRecords {
    private static String hex(byte[] bytes) {
        return bytes == null ? "null" : HexFormat.of().formatHex(bytes);
    }

    private static byte[] bytes(ByteBuffer buffer) {
        return buffer == null ? null : Utils.toArray(buffer);
    }

    private static String row(long time, byte[] key, byte[] value, Iterable<Header> headers) {
        StringBuilder row = new StringBuilder().append(time).append(',').append(hex(key)).append(',').append(hex(value));
        for (Header header : headers) {
            row.append(',').append(hex(header.key().getBytes(java.nio.charset.StandardCharsets.UTF_8)));
            row.append('=').append(hex(header.value()));
        }
        return row.toString();
    }

    private static String batches(byte[] bytes) {
        List<String> all = new ArrayList<>();
        for (RecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(bytes)).batches()) {
            batch.ensureValid();
            List<String> rows = new ArrayList<>();
            rows.add(batch.compressionType().name + " " + batch.producerId() + " " + batch.producerEpoch() + " "
                    + batch.baseSequence() + " " + batch.baseOffset());
            for (Record record : batch) {
                rows.add(row(record.timestamp(), bytes(record.key()), bytes(record.value()), List.of(record.headers())));
            }
            all.add(String.join(";", rows));
        }
        return String.join("|", all);
    }

    private static String topic(String bootstrap, String name, int partition, long end, String isolation) {
        List<String> rows = new ArrayList<>();
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "auto.offset.reset", "earliest", "isolation.level", isolation);
        ByteArrayDeserializer plain = new ByteArrayDeserializer();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings, plain, plain)) {
            List<TopicPartition> partitions = List.of(new TopicPartition(name, partition));
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            long last = end >= 0 ? end : consumer.endOffsets(partitions).get(partitions.get(0));
            while (consumer.position(partitions.get(0)) < last) {
                for (ConsumerRecord<byte[], byte[]> each : consumer.poll(Duration.ofMillis(100))) {
                    rows.add(row(each.timestamp(), each.key(), each.value(), each.headers()));
                }
            }
        }
        return String.join(";", rows);
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ", -1);
            String answer = switch (words[0]) {
                case "murmur2" -> String.valueOf(Utils.murmur2(HexFormat.of().parseHex(words[1])));
                case "batches" -> batches(HexFormat.of().parseHex(words[1]));
                case "committed" -> topic(words[1], words[2], Integer.parseInt(words[3]), -1, "read_committed");
                default -> topic(words[1], words[2], Integer.parseInt(words[3]), Long.parseLong(words[4]), "read_uncommitted");
            };
            System.out.println("=" + answer);
        }
    }
}
