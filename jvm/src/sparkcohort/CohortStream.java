package sparkcohort;

import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.execution.datasources.v2.python.PythonMicroBatchStreamWithTriggerAvailableNow;
import org.apache.spark.sql.types.StructType;

/** The driver's side of a stream: offsets, limits and commits are the Python reader's, the tasks' readers ours. */
final class CohortStream implements MicroBatchStream, SupportsTriggerAvailableNow {
  private final PythonSource source;
  private final PythonMicroBatchStreamWithTriggerAvailableNow python;
  private final StructType schema;
  private AgentLaunch launch; // of the last plan: Spark plans before it asks for the factory

  CohortStream(PythonSource source, MicroBatchStream python, StructType schema) {
    this.source = source;
    launch = source.launch("");
    this.python = PythonSource.stream(python);
    this.schema = schema;
  }

  @Override
  public Offset initialOffset() {
    return python.initialOffset();
  }

  @Override
  public Offset latestOffset() {
    return python.latestOffset();
  }

  @Override
  public Offset latestOffset(Offset start, ReadLimit limit) {
    return python.latestOffset(start, limit);
  }

  @Override
  public ReadLimit getDefaultReadLimit() {
    return python.getDefaultReadLimit();
  }

  @Override
  public Offset reportLatestOffset() {
    return python.reportLatestOffset();
  }

  @Override
  public void prepareForTriggerAvailableNow() {
    python.prepareForTriggerAvailableNow();
  }

  @Override
  public Offset deserializeOffset(String json) {
    return python.deserializeOffset(json);
  }

  @Override
  public void commit(Offset end) {
    python.commit(end);
  }

  @Override
  public void stop() {
    python.stop();
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    InputPartition[] planned = python.planInputPartitions(start, end);
    InputPartition[] slots = new InputPartition[planned.length];
    for (int i = 0; i < slots.length; i++) {
      slots[i] = SlotPartition.of(planned[i]);
    }
    launch = source.launch(slots.length == 0 ? "" : ((SlotPartition) slots[0]).agentConfig());
    return slots;
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return new SlotReaderFactory(launch, python.createReaderFactory(), schema);
  }
}
