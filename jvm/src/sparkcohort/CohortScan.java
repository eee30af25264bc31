package sparkcohort;

import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.StructType;

/** One scan, of a stream or of a batch read: Spark says only at the end which. */
final class CohortScan implements Scan {
  private final BatchPlans.Read batch;
  private final String description;
  private boolean isColumnar;

  CohortScan(BatchPlans.Read batch, String description) {
    this.batch = batch;
    this.description = description;
  }

  @Override
  public StructType readSchema() {
    return batch.columns();
  }

  @Override
  public String description() {
    return description;
  }

  @Override
  public Batch toBatch() {
    return batch;
  }

  @Override
  public MicroBatchStream toMicroBatchStream(String checkpoint) {
    PythonSource python = batch.plans().python();
    Thread reads = python.prepareReads(readSchema(), batch.options());
    MicroBatchStream stream = python.scan(batch.columns(), batch.options()).toMicroBatchStream(checkpoint);
    isColumnar = PythonSource.isStream(stream);
    return isColumnar ? new CohortStream(python, stream, readSchema(), reads) : stream;
  }

  /** A stream's slots come in columns.  To leave it to the partitions would have Spark plan what it only looks at. */
  @Override
  public ColumnarSupportMode columnarSupportMode() {
    return isColumnar ? ColumnarSupportMode.SUPPORTED : ColumnarSupportMode.UNSUPPORTED;
  }
}
