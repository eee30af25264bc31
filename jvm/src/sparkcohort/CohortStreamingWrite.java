package sparkcohort;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Map;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.types.StructType;

/**
 * A batch of a stream, whose tasks write it by Python.  Spark would start a Python process on the driver to make the writer of each
 * batch, and another one to log what it has written: the first is made once for a query, and Spark's progress event has the figures.
 * An exactly-once sink would start a third to commit it: {@code commits} keeps one.
 */
record CohortStreamingWrite(StreamingWrite python, StructType schema, Map<StructType, StreamingDataWriterFactory> writers, CommitProcess commits)
    implements StreamingWrite {
  @Override
  public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo info) {
    return writers.computeIfAbsent(schema, missing -> python.createStreamingWriterFactory(info));
  }

  @Override
  public boolean useCommitCoordinator() {
    return python.useCommitCoordinator();
  }

  @Override
  public void commit(long batch, WriterCommitMessage[] messages) {
    JsonNode figures = commits.commit(batch, messages);
    WriteTotals.ofQuery().addBatch(messages, figures);
  }

  @Override
  public void abort(long batch, WriterCommitMessage[] messages) {
    WriteTotals.ofQuery().addFailure();
    python.abort(batch, messages);
  }
}
