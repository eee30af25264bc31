package sparkcohort;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.ProcessBuilder.Redirect;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import net.razorvine.pickle.PickleException;
import net.razorvine.pickle.Unpickler;
import org.apache.spark.JobArtifactSet$;
import org.apache.spark.SparkThrowable;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.api.python.PythonUtils$;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.RowToColumnConverter;
import org.apache.spark.sql.execution.datasources.DataSourceManager$;
import org.apache.spark.sql.execution.datasources.v2.python.PythonBatch;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceCreationResult;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceReadInfo;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonMicroBatchStreamWithTriggerAvailableNow;
import org.apache.spark.sql.execution.datasources.v2.python.PythonStreamingInputPartition;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWriterCommitMessage;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector;
import org.apache.spark.sql.internal.connector.SupportsStreamingUpdateAsAppend;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.MetadataBuilder;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Option;
import scala.collection.immutable.ArraySeq;
import scala.jdk.javaapi.CollectionConverters;

/** Every use of Spark's inner classes, read in 4.2.0 and 4.3.0: how Spark itself reads a Python source. */
final class PythonSource {
  private static final Logger LOG = LoggerFactory.getLogger("sparkcohort.reader");
  private static final String SCAN = "cohort.scan"; // streaming/batch_scan.py

  private final String name;
  private final NamedSource source;

  PythonSource(String name) {
    this.name = name;
    source = new NamedSource(name);
  }

  /** The source, by its class's name where Spark has not looked for sources yet: its look-up is one more Python, which imports them all. */
  private static final class NamedSource extends PythonDataSourceV2 {
    private static final String MODULE = "pyspark_cohort";
    private static final byte[] PICKLED_CLASS = ("c" + MODULE + "\nDefaultSource\n.").getBytes(StandardCharsets.US_ASCII);

    private static UserDefinedPythonDataSource byName; // kept: with each one Spark asks Python for its version

    private UserDefinedPythonDataSource source;
    private boolean isSearched; // by Spark

    NamedSource(String name) {
      setShortName(name);
    }

    @Override
    public synchronized UserDefinedPythonDataSource source() {
      if (source == null) {
        try {
          source = unsearched();
        } catch (LinkageError e) {
          LOG.debug("this Spark is another one: it looks for Cohort itself", e);
        }
      }
      if (source == null) {
        search();
      }
      return source;
    }

    /** Null where Spark has looked: one that is registered by hand comes first, and to register it Spark looks (DataSourceRegistration). */
    private static synchronized UserDefinedPythonDataSource unsearched() {
      if (DataSourceManager$.MODULE$.dataSourceBuilders().isDefined()) {
        return null;
      }
      if (byName == null) {
        byName = new UserDefinedPythonDataSource(PythonUtils$.MODULE$.createPythonFunction(PICKLED_CLASS));
      }
      return byName;
    }

    /** Take what Spark finds by this name.  Raises Spark's error where that is nothing. */
    synchronized void search() {
      source = super.source();
      isSearched = true;
    }

    @Override
    public synchronized PythonDataSourceCreationResult getOrCreateDataSourceInPython(
        String name, CaseInsensitiveStringMap options, Option<StructType> schema) {
      try {
        return super.getOrCreateDataSourceInPython(name, options, schema);
      } catch (Exception e) {
        if (isSearched || isOfSource(e)) {
          throw e;
        }
        search(); // a look-up that fails leaves no trace, and another Python may be registered by hand
        return super.getOrCreateDataSourceInPython(name, options, schema);
      }
    }

    /** Whether the source itself raised this error. */
    private static boolean isOfSource(Exception error) {
      boolean isOfPython = error instanceof SparkThrowable thrown && "PYTHON_DATA_SOURCE_ERROR".equals(thrown.getCondition());
      return isOfPython && !error.getMessage().contains("No module named '" + MODULE + "'");
    }
  }

  /** Raises LinkageError where this Spark lacks one of these classes. */
  static void check() {
    List.of( // to name a class is to load it
        PythonFunction.class,
        PythonUtils$.class,
        DataSourceManager$.class,
        JobArtifactSet$.class,
        UserDefinedPythonDataSource.class,
        PythonBatch.class,
        PythonDataSourceReadInfo.class,
        PythonMicroBatchStreamWithTriggerAvailableNow.class,
        PythonWriterCommitMessage.class,
        PythonStreamingInputPartition.class,
        RowToColumnConverter.class,
        SupportsStreamingUpdateAsAppend.class,
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

  /** What runs a module of Cohort by the Python of this source's workers. */
  ProcessBuilder module(String module, String... arguments) {
    PythonFunction worker = source.source().dataSourceCls();
    return module(worker.pythonExec(), worker.envVars(), module, arguments);
  }

  /** The same by another Python; it logs where this JVM does. */
  static ProcessBuilder module(String python, Map<String, String> environment, String module, String... arguments) {
    List<String> command = new ArrayList<>(List.of(python, "-m", module));
    command.addAll(List.of(arguments));
    ProcessBuilder builder = new ProcessBuilder(command).redirectError(Redirect.INHERIT);
    builder.environment().putAll(environment);
    builder.environment().put("PYTHONPATH", modulePath(environment));
    return builder;
  }

  /** Where a worker finds its modules (PythonWorkerFactory). */
  private static String modulePath(Map<String, String> environment) {
    Stream<String> paths = Stream.of(PythonUtils.sparkPythonPath(), environment.get("PYTHONPATH"), System.getenv("PYTHONPATH"));
    // An empty one would be the working folder.
    return paths.filter(path -> path != null && !path.isEmpty()).collect(Collectors.joining(File.pathSeparator));
  }

  /** A scan of these columns. */
  Scan scan(StructType columns, CaseInsensitiveStringMap options) {
    return ((SupportsRead) source.getTable(columns, new Transform[0], options)).newScanBuilder(options).build();
  }

  /** Write by the source that Spark finds: no other step of a batch write says that there is none. */
  void search() {
    source.search();
  }

  /**
   * Ask Python for the function that the tasks of a stream run, while the stream's own Python starts.  Spark asks with the first batch,
   * for the same object, and so does this stream where this has failed or Connect's session has Python files of its own.
   */
  Thread prepareReads(StructType columns, CaseInsensitiveStringMap options) {
    source.getOrCreateDataSourceInPython(name, options, Option.apply(columns)); // Spark takes source() before it
    Thread asking = new Thread(() -> source.getOrCreateReadInfo(name, options, columns, true), "cohort-read-info");
    asking.setDaemon(true);
    asking.setUncaughtExceptionHandler((thread, error) -> LOG.debug("Python is asked again with the first batch", error));
    if (JobArtifactSet$.MODULE$.getCurrentJobArtifactState().isEmpty()) { // else it is the query's thread that has it
      asking.start();
    }
    return asking;
  }

  /** What Python planned for one scan, and the ranges of the whole, which are for the next scans. */
  record ScanPlan(Batch batch, String ranges) {}

  /** Plan a scan of some of the columns; the schema's metadata are all that Spark passes on to Python's reader. */
  ScanPlan plan(StructType columns, CaseInsensitiveStringMap options, String request) {
    StructField first = columns.apply(0);
    Metadata metadata = new MetadataBuilder().withMetadata(first.metadata()).putString(SCAN, request).build();
    StructField[] fields = columns.fields().clone();
    fields[0] = new StructField(first.name(), first.dataType(), first.nullable(), metadata);
    source.setReadInfo(null); // else it is the last scan's
    PythonDataSourceReadInfo info = source.getOrCreateReadInfo(name, options, new StructType(fields), false);
    List<byte[]> partitions = CollectionConverters.asJava(info.partitions());
    int last = partitions.size() - 1;
    String ranges = unpickle(partitions.get(last), plan -> (String) Objects.requireNonNull(plan.get("value")));
    NamedSource own = new NamedSource(name);
    own.source = source.source();
    byte[][] tasks = partitions.subList(0, last).toArray(byte[][]::new);
    own.setReadInfo(new PythonDataSourceReadInfo(info.func(), ArraySeq.unsafeWrapArray(tasks)));
    return new ScanPlan(new PythonBatch(own, name, columns, options), ranges);
  }

  /** What {@code use} makes of the fields of an object of Python.  Raises IllegalStateException where it is of another version of Cohort. */
  static <T> T unpickle(byte[] pickled, Function<Map<?, ?>, T> use) {
    try {
      // An object whose class Java doesn't know comes as a map of its fields (ClassDict).  To register constructors would be for
      // the whole JVM, where another session may have this class by another loader.
      return use.apply((Map<?, ?>) new Unpickler().loads(pickled));
    } catch (ClassCastException | NullPointerException | PickleException e) {
      throw new IllegalStateException("the jar of Cohort is not of the version of Spark's Python: pip's and the jar's must be one", e);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
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

  /** What a task of the Python writer has written, as it pickled it. */
  static byte[] pickled(WriterCommitMessage message) {
    return ((PythonWriterCommitMessage) message).pickledMessage();
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
    public boolean next() throws IOException {
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
    public void close() throws IOException {
      batch.close();
      rows.close();
    }
  }
}
