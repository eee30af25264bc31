/** Runs a command as its child and ends with its status: a JVM above a process, as an executor's is. */
public final class Above {
  public static void main(String[] command) throws Exception {
    System.exit(new ProcessBuilder(command).inheritIO().start().waitFor());
  }
}
