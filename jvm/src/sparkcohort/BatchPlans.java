package sparkcohort;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** What Python planned for the scans of one {@code load()}: the first plan fixes the ranges of all. */
final class BatchPlans {
  private static final int MOST_PLANS = 64; // a batch that is joined with a stream is scanned in each micro-batch

  private final PythonSource python;
  private final StructType schema;
  private final Map<Read, Batch> batches =
      new LinkedHashMap<>(MOST_PLANS, 0.75f, true) {
        @Override
        protected boolean removeEldestEntry(Map.Entry<Read, Batch> eldest) {
          return size() > MOST_PLANS;
        }
      };
  private String ranges = "";

  BatchPlans(PythonSource python, StructType schema) {
    this.python = python;
    this.schema = schema;
  }

  PythonSource python() {
    return python;
  }

  StructType schema() {
    return schema;
  }

  synchronized Batch batch(Read read) {
    return batches.computeIfAbsent(read, this::plan);
  }

  private Batch plan(Read read) {
    PythonSource.ScanPlan plan = python.plan(read.columns(), read.options(), read.request().deepCopy().put("plan", ranges).toString());
    ranges = plan.ranges();
    return plan.batch();
  }

  /** The rows of one scan, which Python workers read.  Two scans that ask for the same are equal, so that Spark may read once. */
  record Read(BatchPlans plans, CaseInsensitiveStringMap options, StructType columns, ObjectNode request) implements Batch {
    @Override
    public InputPartition[] planInputPartitions() {
      return plans.batch(this).planInputPartitions();
    }

    @Override
    public PartitionReaderFactory createReaderFactory() {
      return plans.batch(this).createReaderFactory();
    }
  }
}
