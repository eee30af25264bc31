import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;

/** Reads expressions as lines of hexadecimal UTF-8; for each says which of the arguments it is found in, or why it is none. */
public class Patterns {
  public static void main(String[] names) throws Exception {
    var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
    var out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      byte[] bytes = new byte[line.length() / 2];
      for (int i = 0; i < bytes.length; i++) bytes[i] = (byte) Integer.parseInt(line.substring(2 * i, 2 * i + 2), 16);
      out.println(found(new String(bytes, StandardCharsets.UTF_8), names));
    }
    out.flush();
  }

  private static String found(String text, String[] names) {
    try {
      var pattern = Pattern.compile(text);
      var found = new StringBuilder();
      for (String name : names) found.append(pattern.matcher(name).find() ? '1' : '0');
      return found.toString();
    } catch (PatternSyntaxException | StackOverflowError error) {
      return "no: " + error.getClass().getSimpleName();
    }
  }
}
