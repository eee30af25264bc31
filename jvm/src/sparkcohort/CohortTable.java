package sparkcohort;

import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.ReportsSinkMetrics;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The Python source's table, but for how a stream's rows come to Spark, for what Spark pushes to a batch read, and for what a stream's
 * writes cost the driver: {@code writers} has the factories of a query's batches, by the schema of the rows.
 */
record CohortTable(Table python, BatchPlans plans, Map<StructType, StreamingDataWriterFactory> writers, CommitProcess commits)
    implements SupportsRead, SupportsWrite, ReportsSinkMetrics {
  CohortTable(Table python, BatchPlans plans, CommitProcess commits) {
    this(python, plans, new ConcurrentHashMap<>(), commits);
  }

  @Override
  public String name() {
    return python.name();
  }

  @Override
  public Column[] columns() {
    return python.columns();
  }

  @Override
  public Set<TableCapability> capabilities() {
    return python.capabilities();
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    plans.python().search();
    return new CohortWriteBuilder(((SupportsWrite) python).newWriteBuilder(info), info.schema(), writers, commits);
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return new CohortScanBuilder(plans, ReaderOption.withJar(options));
  }

  /** Spark asks on the query's thread, once its batch is written. */
  @Override
  public Map<String, String> metrics() {
    return WriteTotals.ofQuery().ofLastBatch();
  }

  @Override
  public String toString() {
    return name(); // the sink's description in progress events
  }
}
