package sparkcohort;

import java.util.Arrays;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.types.StructType;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A batch of a stream, whose tasks write it by Python.  Spark would start a Python process on the driver to make the writer of each
 * batch, and another one to log what it has written: the first is made once for a query, and the line is written here.
 */
record CohortStreamingWrite(StreamingWrite python, StructType schema, Map<StructType, StreamingDataWriterFactory> writers) implements StreamingWrite {
  private static final Logger LOG = LoggerFactory.getLogger("sparkcohort.writer");

  @Override
  public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo info) {
    return writers.computeIfAbsent(schema, missing -> python.createStreamingWriterFactory(info));
  }

  @Override
  public boolean useCommitCoordinator() {
    return python.useCommitCoordinator();
  }

  /** As streaming/writer.py does where Spark has no jar. */
  @Override
  public void commit(long batch, WriterCommitMessage[] messages) {
    if (!LOG.isInfoEnabled()) {
      return;
    }
    Map<String, long[]> topics = new TreeMap<>(); // rows, bytes, batches, retries
    double waitedS = 0;
    for (WriterCommitMessage message : messages) {
      waitedS += PythonSource.unpickle(PythonSource.pickled(message), written -> add((Map<?, ?>) written.get("report"), topics));
    }
    LOG.info("batch {} is in Kafka: {}; its tasks waited {} s for brokers", batch, describe(topics), String.format("%.3f", waitedS));
  }

  /** Adds a task's counts to those by topic; the seconds that it waited. */
  private static double add(Map<?, ?> report, Map<String, long[]> topics) {
    String[] names = {"rows", "bytes", "batches", "retries"};
    for (int i = 0; i < names.length; i++) {
      int at = i;
      ((Map<?, ?>) report.get(names[i])).forEach((topic, count) -> topics.computeIfAbsent((String) topic, fresh -> new long[names.length])[at] += ((Number) count).longValue());
    }
    return ((Number) report.get("waited_s")).doubleValue();
  }

  private static String describe(Map<String, long[]> topics) {
    String[] counted = topics.entrySet().stream().map(each -> {
      long[] counts = each.getValue();
      return String.format("%s %,d rows (%,d bytes, %,d batches, %,d retries)", each.getKey(), counts[0], counts[1], counts[2], counts[3]);
    }).toArray(String[]::new);
    return counted.length == 0 ? "no row" : String.join(", ", Arrays.asList(counted));
  }

  @Override
  public void abort(long batch, WriterCommitMessage[] messages) {
    python.abort(batch, messages);
  }
}
