package sparkcohort;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** What Spark pushes to one scan: nothing to a stream's. */
final class CohortScanBuilder implements SupportsPushDownV2Filters, SupportsPushDownRequiredColumns, SupportsPushDownLimit {
  private static final Set<String> OF_KAFKA =
      Set.of("key", "value", "topic", "partition", "offset", "timestamp", "timestamptype", "headers");

  private final BatchPlans plans;
  private final CaseInsensitiveStringMap options;
  private final ObjectNode request = Messages.JSON.createObjectNode();
  private Predicate[] pushed = {};
  private StructType columns;

  CohortScanBuilder(BatchPlans plans, CaseInsensitiveStringMap options) {
    this.plans = plans;
    this.options = options;
    columns = plans.schema();
  }

  /** All come back: a bound leaves more than its filter. */
  @Override
  public Predicate[] pushPredicates(Predicate[] predicates) {
    pushed = Arrays.stream(predicates).filter(each -> ScanBound.of(each) != null).toArray(Predicate[]::new);
    Arrays.stream(pushed).map(ScanBound::of).reduce((left, right) -> ScanBound.join("AND", left, right)).ifPresent(bound -> request.set("bound", bound));
    return predicates;
  }

  @Override
  public Predicate[] pushedPredicates() {
    return pushed;
  }

  /** For each task; Spark takes so many of all. */
  @Override
  public boolean pushLimit(int limit) {
    request.put("limit", limit);
    return true;
  }

  @Override
  public void pruneColumns(StructType required) {
    boolean corruptToo = Arrays.stream(required.fieldNames()).anyMatch(name -> !OF_KAFKA.contains(lower(name)));
    List<StructField> fields = new ArrayList<>();
    for (StructField field : plans.schema().fields()) {
      if (isWhole(lower(field.name()), corruptToo)) {
        fields.add(field);
      } else if (required.getFieldIndex(field.name()).isDefined()) {
        fields.add(required.apply(field.name())); // of a struct maybe some fields
      }
    }
    if (fields.isEmpty()) { // rows are only counted
      fields.add(Arrays.stream(plans.schema().fields()).min(Comparator.comparingInt(field -> field.dataType().defaultSize())).orElseThrow());
    }
    columns = new StructType(fields.toArray(StructField[]::new));
  }

  /** Whether a column is decoded in full whatever is asked for: it decides which rows there are, or what is corrupt. */
  private boolean isWhole(String name, boolean corruptToo) {
    boolean decisive = corruptToo || !options.getOrDefault(name + ".mode", "permissive").strip().equalsIgnoreCase("permissive");
    return decisive && (name.equals("key") || name.equals("value"));
  }

  private static String lower(String name) {
    return name.toLowerCase(Locale.ROOT);
  }

  @Override
  public Scan build() {
    return new CohortScan(new BatchPlans.Read(plans, options, columns, request), describe());
  }

  private String describe() {
    String filters = pushed.length == 0 ? "" : ", PushedFilters: " + Arrays.toString(pushed);
    String limit = request.has("limit") ? ", PushedLimit: " + request.get("limit") : "";
    return CohortProvider.NAME + filters + limit + ", ReadSchema: " + columns.simpleString();
  }
}
