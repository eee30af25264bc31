package sparkcohort;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import net.razorvine.pickle.PickleException;
import net.razorvine.pickle.Unpickler;
import org.apache.spark.sql.connector.read.InputPartition;

/**
 * One task's input: the right to claim one slot of a plan (streaming/slot_reader.py, {@code SlotPartition}).
 *
 * <p>{@code avoid} are the addresses of agents that lately did not answer a task; {@code location} is the owner's executor, if any; the first slot
 * of a plan has the {@code agentConfig}.
 */
record SlotPartition(
    InputPartition python, String runId, String token, String planId, long index, Set<String> avoid, double timeoutS, String location, String agentConfig)
    implements InputPartition {
  /** What Python has planned for one task.  Raises IllegalStateException where it is of another version of Cohort. */
  static SlotPartition of(InputPartition python) {
    try {
      // An object whose class Java doesn't know comes as a map of its fields (ClassDict).  To register constructors would be for
      // the whole JVM, where another session may have this class by another loader.
      Map<?, ?> slot = (Map<?, ?>) new Unpickler().loads(PythonSource.pickled(python));
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
          (String) slot.get("location"),
          (String) slot.get("agent_config"));
    } catch (ClassCastException | NullPointerException | PickleException e) {
      throw new IllegalStateException("the jar of Cohort is not of the version of Spark's Python: pip's and the jar's must be one", e);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  @Override
  public String[] preferredLocations() {
    return location.isEmpty() ? new String[0] : new String[] {location};
  }

  @Override
  public String toString() {
    return "SlotPartition(plan=" + planId + ", index=" + index + ")"; // without the token
  }
}
