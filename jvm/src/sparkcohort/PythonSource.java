package sparkcohort;

import java.io.File;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.execution.RowToColumnConverter;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonMicroBatchStreamWithTriggerAvailableNow;
import org.apache.spark.sql.execution.datasources.v2.python.PythonStreamingInputPartition;
import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** Every use of Spark's inner classes, read in 4.2.0 and 4.3.0: how Spark itself reads a Python source. */
final class PythonSource {
  private final PythonDataSourceV2 source = new PythonDataSourceV2();

  PythonSource(String name) {
    source.setShortName(name);
  }

  /** Raises LinkageError where this Spark lacks one of these classes. */
  static void check() {
    List.of( // to name a class is to load it
        PythonFunction.class,
        PythonUtils.class,
        PythonMicroBatchStreamWithTriggerAvailableNow.class,
        PythonStreamingInputPartition.class,
        RowToColumnConverter.class,
        OnHeapColumnVector.class);
  }

  StructType inferSchema(CaseInsensitiveStringMap options) {
    return source.inferSchema(options);
  }

  Table table(StructType schema, Transform[] partitioning, Map<String, String> options) {
    return source.getTable(schema, partitioning, options);
  }

  /** What starts agents by the Python of this source's workers. */
  AgentLaunch launch(String config) {
    PythonFunction worker = source.source().dataSourceCls();
    return new AgentLaunch(worker.pythonExec(), new HashMap<>(worker.envVars()), config);
  }

  /** Where a worker finds its modules (PythonWorkerFactory). */
  static String modulePath(Map<String, String> environment) {
    Stream<String> paths = Stream.of(PythonUtils.sparkPythonPath(), environment.get("PYTHONPATH"), System.getenv("PYTHONPATH"));
    // An empty one would be the working folder.
    return paths.filter(path -> path != null && !path.isEmpty()).collect(Collectors.joining(File.pathSeparator));
  }

  /** Whether this stream is the one of a Python reader with limits and AvailableNow, as ours is. */
  static boolean isStream(MicroBatchStream stream) {
    return stream instanceof PythonMicroBatchStreamWithTriggerAvailableNow;
  }

  /** A stream's calls that no public interface of Spark has together. */
  static PythonMicroBatchStreamWithTriggerAvailableNow stream(MicroBatchStream stream) {
    return (PythonMicroBatchStreamWithTriggerAvailableNow) stream;
  }

  /** What the Python reader planned for one task, as it pickled it. */
  static byte[] pickled(InputPartition partition) {
    return ((PythonStreamingInputPartition) partition).pickedPartition();
  }

  /** The same task with another pickled plan. */
  static InputPartition withPickled(InputPartition partition, byte[] pickled) {
    return new PythonStreamingInputPartition(
        ((PythonStreamingInputPartition) partition).index(), pickled, scala.Option.empty());
  }

  /** The rows of a Python worker, made columns. */
  static PartitionReader<ColumnarBatch> columns(
      PartitionReaderFactory python, InputPartition partition, StructType schema) {
    return new ColumnsOfRows(python.createReader(partition), schema);
  }

  private static final class ColumnsOfRows implements PartitionReader<ColumnarBatch> {
    private static final int ROWS = 4096;

    private final PartitionReader<InternalRow> rows;
    private final RowToColumnConverter converter;
    private final OnHeapColumnVector[] columns;
    private final ColumnarBatch batch;

    ColumnsOfRows(PartitionReader<InternalRow> rows, StructType schema) {
      this.rows = rows;
      converter = new RowToColumnConverter(schema);
      columns = OnHeapColumnVector.allocateColumns(ROWS, schema);
      batch = new ColumnarBatch(columns);
    }

    @Override
    public boolean next() throws java.io.IOException {
      for (OnHeapColumnVector column : columns) {
        column.reset();
      }
      int count = 0;
      while (count < ROWS && rows.next()) {
        converter.convert(rows.get(), columns);
        count++;
      }
      batch.setNumRows(count);
      return count > 0;
    }

    @Override
    public ColumnarBatch get() {
      return batch;
    }

    @Override
    public void close() throws java.io.IOException {
      batch.close();
      rows.close();
    }
  }
}
