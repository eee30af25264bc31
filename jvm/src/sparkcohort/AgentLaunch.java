package sparkcohort;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.io.OutputStream;
import java.io.Serializable;
import java.lang.ProcessBuilder.Redirect;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Starts an executor's agent where a task finds none, by the Python that Spark's workers have (runtime/shell/agent/launch.py).
 *
 * <p>{@code config} has secrets, and is empty where a Python worker is to start the agent.
 */
record AgentLaunch(String python, Map<String, String> environment, String config) implements Serializable {
  private static final long WAIT_MS = 30_000, PAUSE_MS = 20;
  private static final long MOST_BETWEEN_S = 60, FORGOTTEN_S = 180; // as in streaming/agent_start.py
  private static final Logger LOG = LoggerFactory.getLogger("sparkcohort.task");
  private static final ReentrantLock ONE_AT_A_TIME = new ReentrantLock();
  private static final Map<String, Starts> STARTS = new HashMap<>(); // by address

  /** Starts in a row, and the earliest time of the next one, by {@code System.nanoTime} in seconds. */
  private record Starts(int count, long dueS) {}

  /** A connection to the agent at this address.  Raises AgentLost where there is none, and none can be started now. */
  AgentConnection connect(String address, long timeoutMs) throws IOException {
    try {
      return AgentConnection.open(address, timeoutMs);
    } catch (AgentConnection.NoAgent e) {
      if (config.isEmpty()) {
        throw e;
      }
    }
    try {
      ONE_AT_A_TIME.lockInterruptibly();
      try {
        return startAndConnect(address, timeoutMs);
      } finally {
        ONE_AT_A_TIME.unlock();
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt(); // Spark kills the task
      throw (IOException) new InterruptedIOException("the task is killed").initCause(e);
    }
  }

  private AgentConnection startAndConnect(String address, long timeoutMs) throws IOException, InterruptedException {
    long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(WAIT_MS);
    boolean isStarted = false;
    while (true) {
      try {
        return AgentConnection.open(address, timeoutMs); // another task may have started it
      } catch (AgentConnection.NoAgent e) {
        if (isStarted && System.nanoTime() > deadline) {
          // The tasks that wait for their turn don't wait for that, too.
          STARTS.put(address, new Starts(STARTS.get(address).count, nowS() + MOST_BETWEEN_S));
          throw e;
        }
      }
      if (!isStarted) {
        start(address);
        isStarted = true;
      }
      Thread.sleep(PAUSE_MS);
    }
  }

  private void start(String address) throws IOException, InterruptedException {
    Starts earlier = STARTS.getOrDefault(address, new Starts(0, Long.MIN_VALUE));
    if (nowS() < earlier.dueS) {
      throw new AgentConnection.AgentLost("it was started a moment ago");
    }
    int count = nowS() > earlier.dueS + FORGOTTEN_S ? 0 : earlier.count;
    STARTS.put(address, new Starts(count + 1, nowS() + Math.min(1L << Math.min(count, 6), MOST_BETWEEN_S)));
    String host = SparkEnv.get().conf().get("spark.driver.host", "127.0.0.1"), cpus = String.valueOf(TaskContext.get().cpus());
    ProcessBuilder builder = PythonSource.module(python, environment, "sparkcohort.runtime.shell.agent.launch", address, host, cpus);
    try {
      Process process = builder.redirectOutput(Redirect.DISCARD).start();
      try (OutputStream input = process.getOutputStream()) {
        input.write(config.getBytes(StandardCharsets.UTF_8));
      }
      if (process.waitFor(WAIT_MS, TimeUnit.MILLISECONDS) && process.exitValue() == 0) {
        return;
      }
      process.destroyForcibly();
    } catch (IOException e) {
      LOG.warn("no Python can be started for this executor's agent: {}", e.getMessage());
    }
    throw new AgentConnection.AgentLost("it can't be started");
  }

  private static long nowS() {
    return TimeUnit.NANOSECONDS.toSeconds(System.nanoTime());
  }

  @Override
  public String toString() {
    return "AgentLaunch(" + python + ")"; // without the secrets
  }
}
