package sparkcohort;

import java.util.Set;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The Python source's table, but for how a stream's rows come to Spark. */
record CohortTable(PythonSource source, Table python) implements SupportsRead, SupportsWrite {
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

  /** Python's, which refuses, and says how to write. */
  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    return ((SupportsWrite) python).newWriteBuilder(info);
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    ScanBuilder builder = ((SupportsRead) python).newScanBuilder(ReaderOption.withJar(options));
    return () -> new CohortScan(source, builder.build());
  }

  /** A scan whose batch read is Python's, and whose stream is read in columns. */
  record CohortScan(PythonSource source, Scan python) implements Scan {
    @Override
    public StructType readSchema() {
      return python.readSchema();
    }

    @Override
    public String description() {
      return CohortProvider.NAME;
    }

    @Override
    public Batch toBatch() {
      return python.toBatch();
    }

    @Override
    public ColumnarSupportMode columnarSupportMode() {
      return ColumnarSupportMode.PARTITION_DEFINED;
    }

    @Override
    public MicroBatchStream toMicroBatchStream(String checkpoint) {
      MicroBatchStream stream = python.toMicroBatchStream(checkpoint);
      return PythonSource.isStream(stream) ? new CohortStream(source, stream, readSchema()) : stream;
    }
  }
}
