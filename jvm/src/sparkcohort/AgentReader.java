package sparkcohort;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.netty.util.internal.PlatformDependent;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.MappedByteBuffer;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * Reads ranges through an agent, over one connection: what it has fetched ahead, or what it reads from Kafka at once.
 *
 * <p>A batch lies in the agent's memory until the next call of {@code next}, which gives it back.
 */
final class AgentReader implements AutoCloseable {
  private static final int SHARED_STEP = 3, END = 4, ANSWER = 5; // task_frames.py
  private static final int SHARED_HEAD = 1 + 2 * Long.BYTES + 1; // number, size, bytes used, whether a descriptor comes
  private static final int FRAMED = -1;

  private final AgentConnection agent;
  private final String token;
  private final StructType schema;
  private final Map<Integer, MappedByteBuffer> buffers = new HashMap<>();
  private Messages.Tally tally = new Messages.Tally(List.of());
  private long[] counts; // of the path that is read now
  private int lent;
  private boolean owesAnswer;
  private ByteBuffer framed; // the memory of a batch that came through the socket
  private ColumnarBatch batch;

  AgentReader(AgentConnection agent, String token, StructType schema) {
    this.agent = agent;
    this.token = token;
    this.schema = schema;
  }

  /** The coordinator's answer to a claim. */
  Messages.Claimed claim(ObjectNode claim) throws IOException {
    agent.send(Messages.request(token, claim));
    AgentConnection.Frame answer = agent.receive();
    if (answer.kind() != ANSWER) {
      throw new Messages.MalformedAnswer("no answer to a claim");
    }
    return Messages.claimed(answer.body());
  }

  /** Begin with what the agent has of a claimed slot. */
  void readAhead(Messages.Claimed claimed, double patienceS) throws IOException {
    tally = new Messages.Tally(claimed.ranges());
    counts = tally.agent;
    agent.send(Messages.request(token, Messages.read(claimed, patienceS)));
  }

  /** Begin with these ranges, of topics of these ids, from Kafka. */
  void readDirectly(List<Messages.Range> ranges, JsonNode ids) throws IOException {
    tally = new Messages.Tally(ranges);
    readOn(ids);
  }

  /** Have the agent read from Kafka what it had not of the ranges. */
  void readOn(JsonNode ids) throws IOException {
    counts = tally.direct;
    agent.send(Messages.request(token, Messages.direct(tally, ids)));
  }

  /** The next rows; false at the agent's end, whose {@code tally} says how far that is. */
  boolean next() throws IOException {
    while (true) {
      giveBack();
      AgentConnection.Frame frame = agent.receive();
      if (frame.kind() == END) {
        tally.end = frame.body().length == 0 ? tally.end : Messages.object(frame.body(), 0);
        agent.send(ByteBuffer.wrap(new byte[] {1}));
        return false;
      }
      JsonNode step = frame.kind() == SHARED_STEP ? sharedStep(frame.body()) : framedStep(frame.body());
      int rows = batch == null ? 0 : batch.numRows();
      tally.take(step, counts, rows);
      if (rows > 0) {
        return true;
      }
    }
  }

  ColumnarBatch get() {
    return batch;
  }

  /** How far the ranges were read, also after the agent was lost. */
  Messages.Tally tally() {
    return tally;
  }

  void report(ObjectNode delivered) throws IOException {
    agent.send(Messages.request(token, delivered));
  }

  @SuppressWarnings("deprecation") // netty has nothing else that unmaps
  private JsonNode sharedStep(byte[] body) throws IOException {
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
    lend(number, memory, (int) used);
    return Messages.object(body, SHARED_HEAD);
  }

  private JsonNode framedStep(byte[] body) throws IOException {
    ObjectNode step = Messages.object(body, 0);
    if (step.path("rows").asBoolean()) {
      byte[] stream = agent.receive().body();
      framed = ByteBuffer.allocateDirect(stream.length).put(stream).flip();
      lend(FRAMED, framed, stream.length);
    }
    return step;
  }

  private void lend(int number, ByteBuffer memory, int used) throws IOException {
    batch = ArrowStream.batch(memory, used, schema);
    lent = number;
    owesAnswer = true;
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

  @Override
  @SuppressWarnings("deprecation") // as above
  public void close() {
    agent.close();
    batch = null;
    buffers.values().forEach(PlatformDependent::freeDirectBuffer);
    buffers.clear();
  }
}
