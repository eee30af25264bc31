package sparkcohort;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.io.UncheckedIOException;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.execution.datasources.v2.python.PythonMicroBatchStreamWithTriggerAvailableNow;
import org.apache.spark.sql.types.StructType;

/** The driver's side of a stream: offsets, limits and commits are the Python reader's, the tasks' readers ours. */
final class CohortStream implements MicroBatchStream, SupportsTriggerAvailableNow, ReportsSourceMetrics {
  private static final long READS_MS = 30_000; // Spark asks again

  private final PythonSource source;
  private final PythonMicroBatchStreamWithTriggerAvailableNow python;
  private final StructType schema;
  private final Thread reads; // has asked Python for what the Python factory needs
  private final SlotCounts counts = SlotCounts.ofQuery();
  private AgentLaunch launch; // of the last plan: Spark plans before it asks for the factory
  private Map<String, String> metrics = Map.of(); // as Python had them when it planned the last batch
  private String group = ""; // of this stream, once Python has said it
  private String page = ""; // the address of its live page
  private long writesSent; // batches that this query has written by Cohort, as far as Python knows of them

  CohortStream(PythonSource source, MicroBatchStream python, StructType schema, Thread reads) {
    this.source = source;
    launch = source.launch("");
    this.python = PythonSource.stream(python);
    this.schema = schema;
    this.reads = reads;
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
    return python.latestOffset(withWrites(start), limit);
  }

  /**
   * The offset, and beside it what this query has written since, if it writes by Cohort (streaming/reader.py, {@code _take_writes}): no
   * other call has an argument.  Also where a batch is planned: one that fails again with each run is never asked for its end.
   */
  private Offset withWrites(Offset start) {
    WriteTotals writes = WriteTotals.ofQuery();
    if (writes.batches() == writesSent) {
      return start;
    }
    writesSent = writes.batches();
    try {
      ObjectNode offsets = (ObjectNode) Messages.JSON.readTree(start.json());
      return python.deserializeOffset(offsets.set("@writes", writes.json()).toString());
    } catch (JsonProcessingException e) {
      throw new UncheckedIOException(e);
    }
  }

  @Override
  public ReadLimit getDefaultReadLimit() {
    return python.getDefaultReadLimit();
  }

  /** The ends of the logs, with which Python sends its metrics (streaming/jvm_reader.py, {@code progress_report}). */
  @Override
  public Offset reportLatestOffset() {
    Offset report = python.reportLatestOffset();
    if (report == null) {
      return null;
    }
    try {
      JsonNode read = Messages.JSON.readTree(report.json());
      metrics = Messages.JSON.convertValue(read.path("metrics"), new TypeReference<>() {});
      showPage(read.path("group").asText(), read.path("page").asText());
      return python.deserializeOffset(read.path("ends").toString());
    } catch (JsonProcessingException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Those of Spark's own source, and ours; none before the first batch, as there. */
  @Override
  public Map<String, String> metrics(Optional<Offset> consumed) {
    if (consumed.isEmpty()) {
      return Map.of();
    }
    Map<String, String> all = new TreeMap<>(metrics);
    all.put("slotsByAgent", counts.byAgent().value().toString());
    all.put("slotsDirectly", counts.directly().value().toString());
    all.put("slotsByPython", counts.byPython().value().toString());
    return all;
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

  private void showPage(String ofGroup, String address) {
    if (!address.equals(page)) {
      group = ofGroup;
      page = address;
      CohortTab.show(group, page);
    }
  }

  @Override
  public void stop() {
    showPage(group, "");
    python.stop();
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    InputPartition[] planned = python.planInputPartitions(withWrites(start), end);
    InputPartition[] slots = new InputPartition[planned.length];
    for (int i = 0; i < slots.length; i++) {
      slots[i] = SlotPartition.of(planned[i]);
    }
    launch = source.launch(slots.length == 0 ? "" : ((SlotPartition) slots[0]).agentConfig());
    return slots;
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    try {
      reads.join(READS_MS);
    } catch (InterruptedException e) { // the thread's flag stays down, as in CommitProcess
      throw new UncheckedIOException((IOException) new InterruptedIOException("the query is stopped").initCause(e));
    }
    return new SlotReaderFactory(launch, python.createReaderFactory(), schema, counts);
  }

  @Override
  public String toString() {
    return CohortProvider.NAME; // the source's description in progress events
  }
}
