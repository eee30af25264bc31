package sparkcohort;

import java.util.Map;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.internal.connector.SupportsStreamingUpdateAsAppend;
import org.apache.spark.sql.types.StructType;

/** The Python source's writes, in each output mode of Spark's own Kafka sink (KafkaSourceProvider): Spark takes no update of a Python sink. */
record CohortWriteBuilder(WriteBuilder python, StructType schema, Map<StructType, StreamingDataWriterFactory> writers, CommitProcess commits)
    implements SupportsTruncate, SupportsStreamingUpdateAsAppend {
  @Override
  public WriteBuilder truncate() {
    return new CohortWriteBuilder(((SupportsTruncate) python).truncate(), schema, writers, commits);
  }

  @Override
  public Write build() {
    return new ByPython(python.build(), schema, writers, commits);
  }

  private record ByPython(Write python, StructType schema, Map<StructType, StreamingDataWriterFactory> writers, CommitProcess commits)
      implements Write {
    @Override
    public String description() {
      return CohortProvider.NAME;
    }

    @Override
    public BatchWrite toBatch() {
      return python.toBatch();
    }

    @Override
    public StreamingWrite toStreaming() {
      return new CohortStreamingWrite(python.toStreaming(), schema, writers, commits);
    }

    @Override
    public CustomMetric[] supportedCustomMetrics() {
      return python.supportedCustomMetrics();
    }

    @Override
    public CustomTaskMetric[] reportDriverMetrics() {
      return python.reportDriverMetrics();
    }
  }
}
