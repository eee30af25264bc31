package sparkcohort;

import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.read.InputPartition;

/**
 * One task's input: the right to claim one slot of a plan (streaming/slot_reader.py, {@code SlotPartition}).
 *
 * <p>{@code avoid} are the addresses of agents that lately did not answer a task; the first slot of a plan has the
 * {@code agentConfig}.  It prefers no executor: a claim gives a task a slot of its own anyway, and Spark would wait
 * (spark.locality.wait) for one that is gone or busy.
 */
record SlotPartition(
    InputPartition python, String runId, String token, String planId, long index, Set<String> avoid, double timeoutS, String agentConfig)
    implements InputPartition {
  /** What Python has planned for one task.  Raises IllegalStateException where it is of another version of Cohort. */
  static SlotPartition of(InputPartition python) {
    return PythonSource.unpickle(
        PythonSource.pickled(python),
        slot -> {
          Map<?, ?> run = (Map<?, ?>) slot.get("run");
          Map<?, ?> credentials = (Map<?, ?>) run.get("credentials");
          Set<String> avoid = new HashSet<>();
          for (Object address : (Set<?>) slot.get("avoid")) {
            avoid.add((String) address);
          }
          return new SlotPartition(
              python,
              (String) run.get("run_id"),
              (String) credentials.get("token"),
              (String) slot.get("plan_id"),
              ((Number) slot.get("index")).longValue(),
              avoid,
              ((Number) slot.get("agent_timeout_s")).doubleValue(),
              (String) slot.get("agent_config"));
        });
  }

  @Override
  public String toString() {
    return "SlotPartition(plan=" + planId + ", index=" + index + ")"; // without the token
  }
}
