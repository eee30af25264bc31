package sparkcohort;

import io.netty.channel.epoll.Epoll;
import java.io.IOException;
import java.util.Objects;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The rows of one slot: from the executor's agent, and what it can't read from a Python worker (streaming/task.py). */
final class SlotReader implements PartitionReader<ColumnarBatch> {
  private static final String QUERY = "sql.streaming.queryId"; // StreamExecution.QUERY_ID_KEY
  private static final String BATCH = "streaming.sql.batchId"; // MicroBatchExecution.BATCH_ID_KEY
  private static final Logger LOG = LoggerFactory.getLogger("sparkcohort.task");

  private final SlotPartition slot;
  private final AgentLaunch launch;
  private final PartitionReaderFactory python;
  private final StructType schema;
  private final SlotCounts counts;
  private final String address;
  private AgentReader agent;
  private Messages.Claimed claimed;
  private boolean isDirect;
  private PartitionReader<ColumnarBatch> rest; // by a Python worker

  SlotReader(SlotPartition slot, AgentLaunch launch, PartitionReaderFactory python, StructType schema, SlotCounts counts) {
    this.slot = slot;
    this.launch = launch;
    this.python = python;
    this.schema = schema;
    this.counts = counts;
    address = "cohort-" + slot.runId() + "-" + Executor.PROCESS_NAME;
  }

  @Override
  public boolean next() throws IOException {
    if (rest == null && claimed == null) {
      claim();
    }
    if (agent != null) {
      try {
        while (!agent.next()) {
          if (agent.tally().isWhole()) {
            agent.report(Messages.delivered(slot, address, claimed, agent.tally()));
            leaveAgent();
            return false;
          }
          if (isDirect) { // the Python worker meets the failure that the agent has met, and says it
            readRest(false);
            break;
          }
          isDirect = true;
          agent.readOn(claimed.reply().path("ids"));
        }
      } catch (AgentConnection.AgentLost e) {
        LOG.warn("given up in the middle of a slot: {}", e.getMessage());
        readRest(true);
      }
    }
    return agent != null || rest != null && rest.next();
  }

  @Override
  public ColumnarBatch get() {
    return rest == null ? agent.get() : rest.get();
  }

  @Override
  public void close() throws IOException {
    leaveAgent();
    if (rest != null) {
      counts.byPython().add(1);
      rest.close();
    } else if (claimed != null && !claimed.ranges().isEmpty()) {
      (isDirect ? counts.directly() : counts.byAgent()).add(1);
    }
  }

  /** Claim the slot through the agent; whatever speaks against that, a Python worker claims it. */
  private void claim() throws IOException {
    try {
      if (Epoll.isAvailable() && !slot.avoid().contains(address)) {
        agent = new AgentReader(launch.connect(address, Math.round(slot.timeoutS() * 1000)), slot.token(), schema);
        Messages.Claimed reply = agent.claim(Messages.claim(slot, address, property(QUERY), batchNumber(), slot.timeoutS() / 2));
        if (reply.error().isEmpty()) {
          claimed = reply;
          isDirect = !reply.agent();
          if (reply.ranges().isEmpty()) {
            leaveAgent();
          } else if (isDirect) {
            agent.readDirectly(reply.ranges(), reply.reply().path("ids"));
          } else {
            agent.readAhead(reply, slot.timeoutS() / 2);
          }
          return;
        }
      }
    } catch (AgentConnection.AgentLost e) {
      LOG.debug("not asked: {}", e.getMessage());
      if (agent != null) { // it took the connection: the Python worker would wait for it as long again
        readRest(true);
        return;
      }
    }
    leaveAgent();
    // The same claim again: an index gets the same slot however often it is claimed.
    rest = PythonSource.columns(python, slot.python(), schema);
  }

  /** Have a Python worker read from where the agent's rows ended, and report all. */
  private void readRest(boolean timedOut) {
    byte[] begun = Messages.begun(slot, claimed, agent.tally(), timedOut);
    leaveAgent();
    rest = PythonSource.columns(python, PythonSource.withPickled(slot.python(), begun), schema);
  }

  private void leaveAgent() {
    if (agent != null) {
      agent.close();
      agent = null;
    }
  }

  private static String property(String name) {
    return Objects.requireNonNullElse(TaskContext.get().getLocalProperty(name), "");
  }

  private static long batchNumber() {
    String number = property(BATCH);
    return number.matches("[0-9]{1,18}") ? Long.parseLong(number) : -1;
  }
}
