package sparkcohort;

import io.netty.util.internal.PlatformDependent;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.management.BufferPoolMXBean;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Iterator;
import java.util.Map;
import java.util.Set;
import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.core.config.Configurator;
import org.apache.spark.TaskContext$;
import org.apache.spark.sql.catalyst.CatalystTypeConverters;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.execution.datasources.v2.python.PythonStreamingInputPartition;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.LongAccumulator;

/**
 * Reads slots as a task does, of whoever serves as this process's agent; what the agent doesn't have, nobody has.
 *
 * <p>Lines: "name", answered with the name by which agents know this process; "figures": descriptors, bytes of memory outside the
 * heap, and bytes resident; or "DDL<tab>RUN<tab>TIMES": the rows of so many slots and how many of these a Python worker would
 * have had to read on.
 */
public final class SlotReads {
  private static final PartitionReaderFactory NOBODY = new Nobody();
  private static final AgentLaunch NO_LAUNCH = new AgentLaunch("", Map.of(), "");

  private record Nobody() implements PartitionReaderFactory {
    @Override
    public PartitionReader<InternalRow> createReader(InputPartition partition) {
      return new PartitionReader<>() {
        @Override
        public boolean next() {
          return false;
        }

        @Override
        public InternalRow get() {
          throw new IllegalStateException();
        }

        @Override
        public void close() {}
      };
    }
  }

  public static void main(String[] arguments) throws Exception {
    Configurator.setRootLevel(Level.OFF); // each malformed answer is a warning
    TaskContext$.MODULE$.setTaskContext(TaskContext$.MODULE$.empty());
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      String[] words = line.split("\t");
      System.out.println(
          switch (words[0]) {
            case "name" -> Executor.PROCESS_NAME;
            case "figures" -> figures();
            default -> slots(StructType.fromDDL(words[0]), words[1], Integer.parseInt(words[2]));
          });
      System.out.flush();
    }
  }

  private static String slots(StructType schema, String run, int times) throws IOException {
    long rows = 0;
    SlotCounts counts = new SlotCounts(new LongAccumulator(), new LongAccumulator(), new LongAccumulator());
    for (int i = 0; i < times; i++) {
      var python = new PythonStreamingInputPartition(i, new byte[0], scala.Option.empty());
      SlotPartition slot = new SlotPartition(python, run, "token", "plan", i, Set.of(), 20.0, "");
      try (SlotReader reader = new SlotReader(slot, NO_LAUNCH, NOBODY, schema, counts)) {
        while (reader.next()) {
          rows += touch(reader.get().rowIterator(), schema);
        }
      }
    }
    return rows + " " + counts.byPython().value();
  }

  /** Have Spark read every value; one that no such type has is its to refuse. */
  private static long touch(Iterator<InternalRow> rows, StructType schema) {
    var convert = CatalystTypeConverters.createToScalaConverter(schema);
    long count = 0;
    try {
      for (; rows.hasNext(); count++) {
        convert.apply(rows.next());
      }
    } catch (RuntimeException e) {
      return count;
    }
    return count;
  }

  private static String figures() throws Exception {
    System.gc(); // what only a collected object would give back is no leak
    long outside = PlatformDependent.usedDirectMemory();
    for (BufferPoolMXBean pool : ManagementFactory.getPlatformMXBeans(BufferPoolMXBean.class)) {
      outside += pool.getMemoryUsed();
    }
    String resident = Files.readString(Path.of("/proc/self/status")).replaceAll("(?s).*VmRSS:\\s+(\\d+) kB.*", "$1");
    return new File("/proc/self/fd").list().length + " " + outside + " " + 1024 * Long.parseLong(resident);
  }
}
