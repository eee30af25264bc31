package sparkcohort;

import java.util.Map;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.slf4j.LoggerFactory;

/**
 * {@code format("cohort")} as Spark finds it first: the Python source of the same name, whose streams are read here, and whose batch
 * reads are told what each needs.
 *
 * <p>Spark looks for a source of a name among the JVM's before it asks Python (DataSource.lookupDataSourceV2).
 */
public final class CohortProvider implements TableProvider, DataSourceRegister {
  static final String NAME = "cohort";

  private final PythonSource python = new PythonSource(NAME);

  @Override
  public String shortName() {
    return NAME;
  }

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return python.inferSchema(reads(options) ? ReaderOption.withJar(options) : options);
  }

  @Override
  public boolean supportsExternalMetadata() {
    return true;
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> options) {
    Table table = python.table(schema, partitioning, options);
    if (!reads(new CaseInsensitiveStringMap(options))) {
      return table;
    }
    return new CohortTable(table, new BatchPlans(python, schema), new CommitProcess(python, options));
  }

  /** Whether this jar has a part in the read; the same for all calls with the same options. */
  private static boolean reads(CaseInsensitiveStringMap options) {
    if (ReaderOption.isPython(options)) {
      return false;
    }
    try {
      PythonSource.check();
      return true;
    } catch (LinkageError e) {
      LoggerFactory.getLogger("sparkcohort.reader").warn("this Spark has not the classes that Cohort's jar uses ({}): Python reads", e.toString());
      return false;
    }
  }
}
