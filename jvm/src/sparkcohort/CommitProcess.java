package sparkcohort;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.MissingNode;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.Stream;
import org.apache.spark.SparkFiles;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Commits the batches of one exactly-once stream by a Python process on the driver's host, which keeps its connections
 * (runtime/shell/kafka/produce/commit_process.py).  The first commit starts it.  It ends with this JVM, after an error, and when no batch
 * has come for a minute; the next commit starts another one.  Used by the query's own thread only.
 */
final class CommitProcess {
  private static final String MODULE = "sparkcohort.runtime.shell.kafka.produce.commit_process";
  private static final long MOST_S = 600, END_S = 10;
  private static final Logger LOG = LoggerFactory.getLogger("sparkcohort.writer");

  private final PythonSource python;
  private final Map<String, String> options; // of the write, with secrets
  private Process process;

  CommitProcess(PythonSource python, Map<String, String> options) {
    this.python = python;
    this.options = options;
  }

  /**
   * The commit's figures (runtime/shell/driver/document.py, {@code SinkCommits}); none of an at-least-once sink, whose tasks have nothing to
   * commit.  Raises IllegalStateException with the user's text.
   */
  JsonNode commit(long batch, WriterCommitMessage[] messages) {
    List<String> decisions = decisions(messages);
    JsonNode figures = MissingNode.getInstance();
    try {
      figures = decisions.isEmpty() ? figures : figures(Messages.JSON.writeValueAsString(decisions) + "\n");
    } catch (InterruptedException e) {
      // The thread's flag stays down: with it Spark could not abort the batch, and would take query.stop() for a failure.
      throw new UncheckedIOException((IOException) new InterruptedIOException("the query is stopped").initCause(e));
    } catch (IOException e) {
      String unknown = "whether batch " + batch + " is committed is not known: " + e.getMessage() + ".  ";
      throw new IllegalStateException(unknown + "Start the query again: it goes on exactly once; the driver's log has what Python said", e);
    }
    String error = figures.path("error").asText();
    if (!error.isEmpty()) {
      throw new IllegalStateException(error);
    }
    return figures;
  }

  /** What Python says of a batch: {@code error} is "" when it is committed. */
  private JsonNode figures(String line) throws IOException, InterruptedException {
    String answer = answer(line);
    // With status 0 it ended idle, and has not taken this batch.
    if (answer.isEmpty() && process.waitFor(END_S, TimeUnit.SECONDS) && process.exitValue() == 0) {
      answer = answer(line);
    }
    if (answer.isEmpty()) {
      throw new IOException("the process that commits it ended unexpectedly (" + process + ")");
    }
    return Messages.JSON.readTree(answer);
  }

  /** The process's line, "" where it ends without one. */
  private String answer(String line) throws IOException, InterruptedException {
    boolean isNew = process == null || !process.isAlive();
    Process committer = isNew ? start() : process;
    String lines = isNew ? Messages.JSON.writeValueAsString(options) + "\n" + line : line;
    process = committer;
    CompletableFuture<String> answer = CompletableFuture.supplyAsync(() -> exchange(committer, lines), CommitProcess::runApart);
    try {
      return answer.get(MOST_S, TimeUnit.SECONDS);
    } catch (InterruptedException e) {
      // A decision whose transactions stay open is lost after their time-out: the batch is committed before the process ends.
      process = null;
      answer.thenRun(committer::destroy);
      throw e;
    } catch (TimeoutException | ExecutionException e) {
      committer.destroyForcibly();
      throw new IOException("the process that commits it gave no answer for " + MOST_S + " s", e);
    }
  }

  private Process start() {
    try {
      return python.module(MODULE, SparkFiles.getRootDirectory()).start();
    } catch (IOException e) {
      String reason = "no Python can be started on the driver's host, and an exactly-once sink commits by one: " + e.getMessage();
      throw new IllegalStateException(reason + "; set PYSPARK_PYTHON to a Python that has sparkcohort", e);
    }
  }

  private static String exchange(Process committer, String lines) {
    try {
      committer.getOutputStream().write(lines.getBytes(StandardCharsets.UTF_8));
      committer.getOutputStream().flush();
      return Objects.requireNonNullElse(committer.inputReader(StandardCharsets.UTF_8).readLine(), "");
    } catch (IOException e) {
      LOG.debug("it has ended: {}", e.getMessage());
      return "";
    }
  }

  /** A thread that waits for a process can't be interrupted: the query's thread has another one wait. */
  private static void runApart(Runnable exchange) {
    Thread thread = new Thread(exchange, "cohort-commit");
    thread.setDaemon(true);
    thread.start();
  }

  private static List<String> decisions(WriterCommitMessage[] messages) {
    return Stream.of(messages)
        .filter(Objects::nonNull)
        .map(message -> PythonSource.unpickle(PythonSource.pickled(message), CommitProcess::decision))
        .filter(decision -> !decision.isEmpty())
        .toList();
  }

  /** Of a task's message (streaming/writer.py, {@code WrittenRows}). */
  private static String decision(Map<?, ?> written) {
    return new String((byte[]) written.get("decision"), StandardCharsets.UTF_8);
  }
}
