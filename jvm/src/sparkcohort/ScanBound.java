package sparkcohort;

import com.fasterxml.jackson.databind.node.ArrayNode;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.unsafe.types.UTF8String;

/** What a filter says of the offsets to read, as streaming/narrowing.py takes it: it bounds them, and filters nothing. */
final class ScanBound {
  private static final Map<String, String> MIRRORED = Map.of("=", "=", "<", ">", "<=", ">=", ">", "<", ">=", "<=");

  private ScanBound() {}

  /** The bound of a predicate; null for one that may keep any record. */
  static ArrayNode of(Predicate predicate) {
    Expression[] parts = predicate.children();
    switch (predicate.name()) {
      case "AND", "OR":
        ArrayNode left = of((Predicate) parts[0]), right = of((Predicate) parts[1]);
        if (left == null || right == null) {
          return predicate.name().equals("OR") ? null : left == null ? right : left;
        }
        return join(predicate.name(), left, right);
      case "IN":
        return comparison("=", parts[0], Arrays.asList(parts).subList(1, parts.length));
      case "=", "<=>", "<", "<=", ">", ">=":
        String name = predicate.name().equals("<=>") ? "=" : predicate.name();
        boolean literalFirst = parts[0] instanceof Literal;
        return literalFirst ? comparison(MIRRORED.get(name), parts[1], List.of(parts[0])) : comparison(name, parts[0], List.of(parts[1]));
      default:
        return null;
    }
  }

  /** Both bounds in one; what is already of this kind takes the other in. */
  static ArrayNode join(String name, ArrayNode left, ArrayNode right) {
    ArrayNode joined = left.path(0).asText().equals(name) ? left : Messages.JSON.createArrayNode().add(name).add(left);
    return joined.add(right);
  }

  private static ArrayNode comparison(String name, Expression column, List<Expression> values) {
    if (!(column instanceof NamedReference reference) || reference.fieldNames().length != 1 || values.isEmpty()) {
      return null;
    }
    String field = reference.fieldNames()[0].toLowerCase(Locale.ROOT); // the user's schema may write it otherwise
    ArrayNode bound = Messages.JSON.createArrayNode().add(name).add(field);
    for (Expression each : values) {
      Object value = each instanceof Literal<?> literal ? literal.value() : null;
      if (field.equals("topic") && value instanceof UTF8String text) {
        bound.add(text.toString());
      } else if (field.equals("timestamp") && value instanceof Long micros && values.size() == 1) {
        return time(bound, name, micros);
      } else if ((field.equals("offset") || field.equals("partition")) && (value instanceof Long || value instanceof Integer)) {
        bound.add(((Number) value).longValue());
      } else {
        return null;
      }
    }
    return bound;
  }

  /** A lower bound in milliseconds, Kafka's unit; there is no upper one, since producers set times in any order. */
  private static ArrayNode time(ArrayNode bound, String name, long micros) {
    long millis = name.equals(">") ? Math.floorDiv(micros, 1000) + 1 : -Math.floorDiv(-micros, 1000);
    return name.startsWith("<") || millis <= 0 ? null : bound.add(millis); // below zero are other questions to a broker
  }
}
