package sparkcohort;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.MissingNode;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/**
 * What a query has written by Cohort since this JVM began: for Spark's progress events and, where the query also reads by Cohort, for
 * its metrics and page.  Used by the query's own thread only.  It stays when a run fails, so that the next one reports it.
 */
final class WriteTotals {
  private static final Map<String, WriteTotals> QUERIES = new ConcurrentHashMap<>(); // by Spark's id of the query

  private final Counts all = new Counts();
  private Counts last = new Counts();
  private long committed;
  private long aborted;
  private double commitS;
  private JsonNode lastCommit = MissingNode.getInstance(); // also of an at-least-once sink
  private long batches; // with those that failed
  private long failedBatches;

  /** Those of the query whose thread this is. */
  static WriteTotals ofQuery() {
    String query = SparkContext.getOrCreate().getLocalProperty("sql.streaming.queryId"); // StreamExecution.QUERY_ID_KEY
    return query == null ? new WriteTotals() : QUERIES.computeIfAbsent(query, missing -> new WriteTotals());
  }

  /** {@code commit}: see {@link CommitProcess#commit}. */
  void addBatch(WriterCommitMessage[] messages, JsonNode commit) {
    Counts batch = new Counts();
    for (WriterCommitMessage message : messages) {
      PythonSource.unpickle(
          PythonSource.pickled(message),
          written -> {
            all.add(written);
            batch.add(written);
            return written;
          });
    }
    last = batch;
    batches++;
    lastCommit = commit;
    committed += commit.path("committed").asLong();
    aborted += commit.path("aborted").asLong();
    commitS += commit.path("commit_s").asDouble();
  }

  void addFailure() {
    failedBatches++;
    batches++;
  }

  long batches() {
    return batches;
  }

  /** The last batch, for a progress event. */
  Map<String, String> ofLastBatch() {
    Map<String, String> metrics = new TreeMap<>(Map.of("waitedSeconds", Double.toString(last.waitedS), "failedBatches", Long.toString(failedBatches)));
    if (!lastCommit.isMissingNode()) {
      metrics.put("transactions", lastCommit.path("committed").asText());
      metrics.put("commitSeconds", lastCommit.path("commit_s").asText());
    }
    last.topics.forEach((topic, counts) -> counts.forEach((name, count) -> metrics.put(topic + "." + name, count.toString())));
    return metrics;
  }

  /** For Python (runtime/shell/driver/document.py, {@code Writes}). */
  JsonNode json() {
    Map<String, Double> ofLast = Map.of("waited_s", last.waitedS, "tasks_s", last.tasksS);
    Map<String, ?> commits =
        Map.of("committed", committed, "aborted", aborted, "commit_s", commitS, "open_ratio", lastCommit.path("open_ratio").asDouble());
    return Messages.JSON.valueToTree(
        Map.of(
            "topics", all.topics, "waited_s", all.waitedS, "tasks_s", all.tasksS, "failed_batches", failedBatches, "last", ofLast, "commits", commits));
  }

  /** Rows, bytes, batches and retries by topic; how long tasks waited for brokers, and how long they took. */
  private static final class Counts {
    private final Map<String, Map<String, Long>> topics = new TreeMap<>();
    private double waitedS;
    private double tasksS;

    /** Adds what a task has written (streaming/writer.py, {@code WrittenRows}). */
    void add(Map<?, ?> written) {
      Map<?, ?> report = (Map<?, ?>) written.get("report");
      for (String name : new String[] {"rows", "bytes", "batches", "retries"}) {
        ((Map<?, ?>) report.get(name)).forEach((topic, count) -> of((String) topic).merge(name, ((Number) count).longValue(), Long::sum));
      }
      waitedS += ((Number) report.get("waited_s")).doubleValue();
      tasksS += ((Number) written.get("task_s")).doubleValue();
    }

    private Map<String, Long> of(String topic) {
      return topics.computeIfAbsent(topic, missing -> new TreeMap<>(Map.of("rows", 0L, "bytes", 0L, "batches", 0L, "retries", 0L)));
    }
  }
}
