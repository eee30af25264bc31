package sparkcohort;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.util.Iterator;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.CatalystTypeConverters;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * Does what the jar does: reads Arrow streams, row by row, through Spark's own converters; connects to an agent's socket.
 *
 * <p>Lines: "DDL<tab>FILE"; answers: the rows as one JSON list, or "malformed: …".  Or the name of a socket: "connected", or why not.
 */
public final class ArrowBatches {
  public static void main(String[] arguments) throws Exception {
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      String[] words = line.split("\t");
      System.out.println(words.length == 1 ? connect(line) : answer(StructType.fromDDL(words[0]), Path.of(words[1])));
      System.out.flush();
    }
  }

  /** A stream that is none raises nothing else than MalformedAnswer. */
  private static ColumnarBatch batch(ByteBuffer memory, StructType schema) throws Messages.MalformedAnswer {
    try {
      return ArrowStream.batch(memory, memory.capacity(), schema);
    } catch (RuntimeException e) {
      throw new AssertionError(e);
    }
  }

  private static String connect(String name) throws Exception {
    try (AgentConnection connection = AgentConnection.open(name, 60_000)) {
      return "connected";
    } catch (AgentConnection.AgentLost e) {
      return e.getMessage();
    }
  }

  private static String answer(StructType schema, Path path) throws Exception {
    ByteBuffer memory;
    try (FileChannel file = FileChannel.open(path)) {
      memory = file.map(FileChannel.MapMode.READ_ONLY, 0, file.size());
    }
    try {
      ColumnarBatch batch = batch(memory, schema);
      var convert = CatalystTypeConverters.createToScalaConverter(schema);
      StringBuilder rows = new StringBuilder("[");
      for (Iterator<InternalRow> each = batch.rowIterator(); each.hasNext(); ) {
        rows.append(rows.length() > 1 ? "," : "").append(((Row) convert.apply(each.next())).json());
      }
      return rows.append("]").toString();
    } catch (Messages.MalformedAnswer | RuntimeException e) { // a value that no such type has is Spark's to refuse
      return "malformed: " + e.getMessage();
    } finally {
      Reference.reachabilityFence(memory); // its mapping ends with it, as a connection's does with the connection
    }
  }
}
