package sparkcohort;

import io.netty.channel.epoll.Epoll;
import io.netty.util.internal.PlatformDependent;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.MappedByteBuffer;
import java.util.HashMap;
import java.util.Map;
import java.util.Objects;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The rows of one slot: from the executor's agent as far as it has them, then from a Python worker (streaming/task.py).
 *
 * <p>A batch lies in the agent's memory until the next call of {@code next}, which gives it back.
 */
final class SlotReader implements PartitionReader<ColumnarBatch> {
  private static final int SHARED_STEP = 3, END = 4, ANSWER = 5; // task_frames.py
  private static final int SHARED_HEAD = 1 + 2 * Long.BYTES + 1; // number, size, bytes used, whether a descriptor comes
  private static final int FRAMED = -1;
  private static final String QUERY = "sql.streaming.queryId"; // StreamExecution.QUERY_ID_KEY
  private static final String BATCH = "streaming.sql.batchId"; // MicroBatchExecution.BATCH_ID_KEY
  private static final Logger LOG = LoggerFactory.getLogger("sparkcohort.task");

  private final SlotPartition slot;
  private final PartitionReaderFactory python;
  private final StructType schema;
  private final Map<Integer, MappedByteBuffer> buffers = new HashMap<>();
  private AgentConnection agent;
  private String address;
  private Messages.Claimed claimed;
  private Messages.Tally tally;
  private long[] positions;
  private int lent;
  private boolean owesAnswer;
  private ByteBuffer framed; // the memory of a batch that came through the socket
  private ColumnarBatch batch;
  private PartitionReader<ColumnarBatch> rest; // by a Python worker

  SlotReader(SlotPartition slot, PartitionReaderFactory python, StructType schema) {
    this.slot = slot;
    this.python = python;
    this.schema = schema;
  }

  @Override
  public boolean next() throws IOException {
    if (rest == null && claimed == null) {
      claim();
    }
    if (rest == null && !claimed.ranges().isEmpty()) {
      try {
        if (nextOfAgent()) {
          return true;
        }
      } catch (AgentConnection.AgentLost e) {
        LOG.warn("given up in the middle of a slot: {}", e.getMessage());
        readOn(true);
      }
    }
    return rest != null && rest.next();
  }

  @Override
  public ColumnarBatch get() {
    return rest == null ? batch : rest.get();
  }

  @Override
  public void close() throws IOException {
    leaveAgent();
    if (rest != null) {
      rest.close();
    }
  }

  /** Claim the slot through the agent; whatever speaks against that, a Python worker claims it, and starts a missing agent. */
  private void claim() throws IOException {
    try {
      address = "cohort-" + slot.runId() + "-" + Executor.PROCESS_NAME;
      if (Epoll.isAvailable() && !slot.avoid().contains(address)) {
        agent = AgentConnection.open(address, Math.round(slot.timeoutS() * 1000));
        agent.send(Messages.request(slot.token(), Messages.claim(slot, address, property(QUERY), batchNumber(), slot.timeoutS() / 2)));
        AgentConnection.Frame answer = agent.receive();
        Messages.Claimed reply = Messages.claimed(answer.body());
        if (answer.kind() == ANSWER && reply.error().isEmpty() && (reply.agent() || reply.ranges().isEmpty())) {
          if (!reply.ranges().isEmpty()) {
            agent.send(Messages.request(slot.token(), Messages.read(reply, slot.timeoutS() / 2)));
          }
          claimed = reply;
          tally = new Messages.Tally(reply.ranges().size());
          positions = reply.ranges().stream().mapToLong(Messages.Range::start).toArray();
          return;
        }
      }
    } catch (AgentConnection.AgentLost e) {
      LOG.debug("not asked: {}", e.getMessage());
    }
    leaveAgent();
    // The same claim again: an index gets the same slot however often it is claimed.
    rest = PythonSource.columns(python, slot.python(), schema);
  }

  /** The next rows of the agent; false at its end, when what it hasn't is left to {@code rest}. */
  private boolean nextOfAgent() throws IOException {
    while (true) {
      giveBack();
      AgentConnection.Frame frame = agent.receive();
      if (frame.kind() == END) {
        agent.send(ByteBuffer.wrap(new byte[] {1}));
        finish();
        return false;
      }
      Messages.Step step = frame.kind() == SHARED_STEP ? sharedStep(frame.body()) : framedStep(frame.body());
      for (Messages.Position position : step.positions()) {
        positions[position.place()] = position.offset();
        tally.sizes[position.place()] += position.size();
        tally.bytes += position.size();
      }
      if (step.hasRows() && batch.numRows() > 0) {
        tally.rows += batch.numRows();
        return true;
      }
    }
  }

  @SuppressWarnings("deprecation") // netty has nothing else that unmaps
  private Messages.Step sharedStep(byte[] body) throws IOException {
    if (body.length < SHARED_HEAD) {
      throw new Messages.MalformedAnswer("half a step");
    }
    ByteBuffer head = ByteBuffer.wrap(body);
    int number = head.get();
    long size = head.getLong(), used = head.getLong();
    if (head.get() != 0) {
      MappedByteBuffer earlier = buffers.put(number, agent.map(size));
      if (earlier != null) {
        PlatformDependent.freeDirectBuffer(earlier); // the agent gives up only what came back
      }
    }
    MappedByteBuffer memory = buffers.get(number);
    if (memory == null || used > memory.capacity()) {
      throw new Messages.MalformedAnswer("a batch in no buffer");
    }
    Messages.Step step = Messages.step(body, SHARED_HEAD, claimed.ranges());
    lent = number;
    batch = ArrowStream.batch(memory, (int) used, schema);
    owesAnswer = true;
    return step;
  }

  private Messages.Step framedStep(byte[] body) throws IOException {
    Messages.Step step = Messages.step(body, 0, claimed.ranges());
    if (step.hasRows()) {
      byte[] stream = agent.receive().body();
      framed = ByteBuffer.allocateDirect(stream.length).put(stream).flip();
      lent = FRAMED;
      batch = ArrowStream.batch(framed, stream.length, schema);
      owesAnswer = true;
    }
    return step;
  }

  /** Answer the last step with rows: the numbers of the buffers that go back. */
  private void giveBack() throws IOException {
    if (owesAnswer) {
      owesAnswer = false;
      batch = null;
      framed = null;
      agent.send(ByteBuffer.wrap(lent == FRAMED ? new byte[] {0} : new byte[] {1, (byte) lent}));
    }
  }

  /** At the agent's end: report what was delivered, or have the rest read. */
  private void finish() throws IOException {
    if (isDelivered()) {
      agent.send(Messages.request(slot.token(), Messages.delivered(slot, address, claimed, tally)));
      leaveAgent();
    } else {
      readOn(false);
    }
  }

  private boolean isDelivered() {
    for (int i = 0; i < positions.length; i++) {
      if (positions[i] < claimed.ranges().get(i).end()) {
        return false;
      }
    }
    return true;
  }

  /** Have a Python worker read from where the agent's rows ended, and report all. */
  private void readOn(boolean timedOut) {
    leaveAgent();
    byte[] begun = Messages.begun(slot, claimed, positions, tally, timedOut);
    rest = PythonSource.columns(python, PythonSource.withPickled(slot.python(), begun), schema);
  }

  @SuppressWarnings("deprecation") // as above
  private void leaveAgent() {
    if (agent != null) {
      agent.close();
      agent = null;
    }
    batch = null;
    buffers.values().forEach(PlatformDependent::freeDirectBuffer);
    buffers.clear();
  }

  private static String property(String name) {
    return Objects.requireNonNullElse(TaskContext.get().getLocalProperty(name), "");
  }

  private static long batchNumber() {
    String number = property(BATCH);
    return number.matches("[0-9]{1,18}") ? Long.parseLong(number) : -1;
  }
}
