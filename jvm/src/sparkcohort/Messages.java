package sparkcohort;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;

/** The calls between a task, its agent and the coordinator (runtime/protocol/calls.py), as the task writes and reads them. */
final class Messages {
  static final ObjectMapper JSON = new ObjectMapper();

  private Messages() {}

  /** A range of a partition's offsets: {@code end} is the first that it does not have. */
  record Range(String topic, int partition, long start, long end) {}

  /** The answer to a claim; {@code reply} as it came. */
  record Claimed(List<Range> ranges, JsonNode reply, boolean agent, String error) {}

  /** A request as it is sent: a length, then JSON that begins with the token, which the agent checks before all else. */
  static ByteBuffer request(String token, ObjectNode fields) throws IOException {
    // The agent compares the first bytes with Python's spelling, which has a space behind the colon.
    String head = "{\"token\": " + JSON.writeValueAsString(token);
    String tail = fields.isEmpty() ? "}" : ", " + JSON.writeValueAsString(fields).substring(1);
    byte[] body = (head + tail).getBytes(StandardCharsets.UTF_8);
    ByteBuffer framed = ByteBuffer.allocate(Integer.BYTES + body.length);
    return framed.putInt(body.length).put(body).flip();
  }

  static ObjectNode claim(SlotPartition slot, String address, String query, long batch, double patienceS) {
    ObjectNode claim = JSON.createObjectNode();
    claim.put("plan", slot.planId()).put("index", slot.index()).put("address", address);
    claim.put("alone", "").put("host", "").put("query", query).put("batch", batch);
    return call("Claim", claim).put("patience_s", patienceS);
  }

  /** The request for the rows of a claimed slot. */
  static ObjectNode read(Claimed claimed, double patienceS) {
    JsonNode reply = claimed.reply();
    ObjectNode read = JSON.createObjectNode().put("patience_s", patienceS);
    read.set("ranges", reply.path("ranges"));
    read.set("planned_starts", reply.path("planned_starts"));
    read.set("plan_seq", reply.path("sequence"));
    read.set("ids", reply.path("ids"));
    return read;
  }

  /** The request to read on from Kafka; a range that is read is empty. */
  static ObjectNode direct(Tally tally, JsonNode ids) {
    ObjectNode read = JSON.createObjectNode().put("direct", true);
    ArrayNode ranges = read.putArray("ranges");
    for (int i = 0; i < tally.positions.length; i++) {
      Range range = tally.ranges.get(i);
      ranges.addArray().add(range.topic).add(range.partition).add(tally.positions[i]).add(range.end);
    }
    return read.set("ids", ids);
  }

  static ObjectNode delivered(SlotPartition slot, String address, Claimed claimed, Tally tally) {
    ObjectNode report = JSON.createObjectNode().put("plan", slot.planId()).put("address", address);
    report.set("ranges", claimed.reply().path("ranges"));
    report.setAll(tally.end);
    tally.write(report);
    return call("Delivered", report.put("timed_out", false)).put("reply", false);
  }

  /**
   * What a Python worker needs to read on (streaming/task.py, {@code read_rest}): an InputPartition of a text of JSON, pickled.
   * {@code claimed} is null where the agent gave no answer to the claim.
   */
  static byte[] begun(SlotPartition slot, Claimed claimed, Tally tally, boolean timedOut) {
    ObjectNode begun = JSON.createObjectNode().put("slot", PythonSource.pickled(slot.python()));
    begun.set("claimed", claimed == null ? null : claimed.reply());
    begun.set("positions", JSON.valueToTree(tally.positions));
    tally.write(begun);
    byte[] text = begun.put("timed_out", timedOut).toString().getBytes(StandardCharsets.UTF_8);
    byte[] type = "\u0080\u0002cpyspark.sql.datasource\nInputPartition\nX".getBytes(StandardCharsets.ISO_8859_1); // PROTO 2, GLOBAL, BINUNICODE
    byte[] call = "\u0085R.".getBytes(StandardCharsets.ISO_8859_1); // TUPLE1, REDUCE, STOP (pickletools)
    ByteBuffer pickled = ByteBuffer.allocate(type.length + Integer.BYTES + text.length + call.length).order(ByteOrder.LITTLE_ENDIAN);
    return pickled.put(type).putInt(text.length).put(text).put(call).array();
  }

  private static ObjectNode call(String action, ObjectNode body) {
    return JSON.createObjectNode().put("action", action).put("body", body.toString());
  }

  static Claimed claimed(byte[] body) throws IOException {
    JsonNode reply = object(body, 0);
    List<Range> ranges = new ArrayList<>();
    for (JsonNode range : reply.path("ranges")) {
      Range read = new Range(range.path(0).asText(), range.path(1).asInt(), range.path(2).asLong(-1), range.path(3).asLong(-1));
      if (read.start < 0 || read.end < read.start) {
        throw new MalformedAnswer("a range that ends before it starts");
      }
      ranges.add(read);
    }
    return new Claimed(ranges, reply, reply.path("agent").asBoolean(), reply.path("error").asText(""));
  }

  static ObjectNode object(byte[] body, int from) throws IOException {
    try {
      // Of bytes Jackson would guess the encoding, and its reader of UTF-32 fails outside of its buffer.
      if (JSON.readTree(new String(body, from, body.length - from, StandardCharsets.UTF_8)) instanceof ObjectNode read) {
        return read;
      }
    } catch (JsonProcessingException e) {
      throw new MalformedAnswer("it is no JSON: " + e.getClass().getSimpleName()); // its own words quote the text
    }
    throw new MalformedAnswer("it is no object");
  }

  /** How far ranges were read: the next offsets, bytes by range, and (records, bytes) by path, for the report. */
  static final class Tally {
    final List<Range> ranges;
    final long[] agent = new long[2], direct = new long[2];
    long[] positions, sizes;
    ObjectNode end = JSON.createObjectNode(); // what the agent says of a direct read (DirectEnd)

    Tally(List<Range> ranges) {
      this.ranges = ranges;
      positions = ranges.stream().mapToLong(Range::start).toArray();
      sizes = new long[positions.length];
    }

    boolean isWhole() {
      return IntStream.range(0, positions.length).allMatch(place -> positions[place] == ranges.get(place).end);
    }

    /** Count a step and its rows, all of it or nothing.  Raises MalformedAnswer for one that is about none of the ranges. */
    void take(JsonNode step, long[] path, int rows) throws MalformedAnswer {
      JsonNode moves = step.path("positions"), bytes = step.path("sizes");
      if (rows > 0 && bytes.size() != moves.size()) {
        throw new MalformedAnswer(bytes.size() + " sizes of " + moves.size() + " ranges");
      }
      long[] positions = this.positions.clone(), sizes = this.sizes.clone();
      long sum = 0;
      for (int i = 0; i < moves.size(); i++) {
        int place = moves.get(i).path(0).asInt(-1);
        long offset = moves.get(i).path(1).asLong(-1), size = bytes.path(i).asLong();
        if (place < 0 || place >= ranges.size() || offset < ranges.get(place).start || offset > ranges.get(place).end) {
          throw new MalformedAnswer("a range that stands outside of itself, or is none of " + ranges.size());
        }
        positions[place] = offset;
        sizes[place] += size;
        sum += size;
      }
      this.positions = positions;
      this.sizes = sizes;
      path[0] += rows;
      path[1] += sum;
    }

    private void write(ObjectNode report) {
      report.set("agent", JSON.valueToTree(agent));
      report.set("direct", JSON.valueToTree(direct));
      report.set("sizes", JSON.valueToTree(sizes));
    }
  }

  /** Bytes of an agent that are no answer; the message says why, and quotes none of them. */
  static final class MalformedAnswer extends AgentConnection.AgentLost {
    private static final long serialVersionUID = 1;

    MalformedAnswer(String reason) {
      super("its answer is malformed: " + reason);
    }
  }
}
