package sparkcohort;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The options {@code reader}, by which a user chooses who reads, and {@code reader.jar}, by which the Python source learns of this. */
final class ReaderOption {
  private static final String READER = "reader";
  private static final String JAR = "reader.jar";
  private static final String ZONE = "spark.sql.session.timeZone";
  private static final List<String> SETTINGS = List.of("spark.sql.timestampType", "spark.sql.kafka.disallowedOptions");
  private static final String VERSION = Objects.requireNonNullElse(ReaderOption.class.getPackage().getImplementationVersion(), "?");

  private ReaderOption() {}

  /** Whether Python is to read; what is no value of the option is the Python parser's to refuse. */
  static boolean isPython(CaseInsensitiveStringMap options) {
    return options.getOrDefault(READER, "").strip().equalsIgnoreCase("python");
  }

  /**
   * The options with what the driver's Python does not see: that this jar is there, of which version, and what the session says.
   *
   * <p>Read by streaming/jvm_reader.py, {@code _JarReport}.
   */
  static CaseInsensitiveStringMap withJar(CaseInsensitiveStringMap options) {
    ObjectNode report = Messages.JSON.createObjectNode().put("version", VERSION);
    SQLConf conf = SQLConf.get();
    ObjectNode session = report.putObject("session").put(ZONE, conf.sessionLocalTimeZone());
    SETTINGS.stream().filter(conf::contains).forEach(setting -> session.put(setting, conf.getConfString(setting)));
    Map<String, String> all = new HashMap<>(options.asCaseSensitiveMap());
    all.put(JAR, report.toString());
    return new CaseInsensitiveStringMap(all);
  }
}
