package sparkcohort;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** This JVM as its agent knows it (runtime/shell/rpc/executor.py, {@code Executor.process_name}). */
final class Executor {
  /** Its process id, its start in clock ticks since boot, and its process namespace: no other process of this host has it. */
  static final String PROCESS_NAME = processName();

  private static final int START_TIME = 19; // proc(5): field 22, counted behind the command's name

  private Executor() {}

  private static String processName() {
    try {
      String stat = Files.readString(Path.of("/proc/self/stat"));
      String[] fields = stat.substring(stat.lastIndexOf(')') + 2).split(" "); // the name may hold spaces and brackets
      Object namespace = Files.getAttribute(Path.of("/proc/self/ns/pid"), "unix:ino");
      return ProcessHandle.current().pid() + "-" + fields[START_TIME] + "-" + namespace;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
