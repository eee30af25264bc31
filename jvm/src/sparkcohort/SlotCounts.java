package sparkcohort;

import java.io.Serializable;
import org.apache.spark.SparkContext;
import org.apache.spark.util.LongAccumulator;

/**
 * How many slots the tasks of a query have read, by who had their last rows: the agent ahead of them, the agent from Kafka on
 * request, a Python worker.
 */
record SlotCounts(LongAccumulator byAgent, LongAccumulator directly, LongAccumulator byPython) implements Serializable {
  /** On the driver: none yet. */
  static SlotCounts ofQuery() {
    SparkContext context = SparkContext.getOrCreate();
    return new SlotCounts(context.longAccumulator(), context.longAccumulator(), context.longAccumulator());
  }
}
