package sparkcohort;

import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.HttpURLConnection;
import java.net.Proxy;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.function.BiConsumer;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.ui.SparkUI;
import org.apache.spark.ui.SparkUITab;
import org.apache.spark.ui.UIUtils;
import org.apache.spark.ui.WebUIPage;
import org.apache.spark.ui.WebUITab;
import org.slf4j.LoggerFactory;
import scala.Option;
import scala.collection.immutable.ArraySeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.xml.Node;
import scala.xml.Unparsed;
import scala.xml.Utility;

/**
 * The tab <em>Cohort</em> of Spark's UI: the live page of each query of this application, passed on from the query's own port, so that
 * the proxies of YARN and Kubernetes and Spark's access rules hold for it.
 *
 * <p>A consumer of groups and addresses: another class loader's tab is found by a type that both know.
 */
final class CohortTab extends SparkUITab implements BiConsumer<String, String> {
  private static final String PREFIX = "cohort";
  private static final String NAME = "Cohort"; // WebUITab makes it of the prefix
  private static final String PAGES = "/cohort/page";
  private static final Pattern HEX = Pattern.compile("(?:[0-9a-f]{2})+");

  private final Map<String, String> pages = new ConcurrentSkipListMap<>(); // the address of each group's page

  private CohortTab(SparkUI ui) {
    super(ui, PREFIX);
    attachPage(new TabPage());
    ui.attachHandler(PAGES, new Pages(), "/*");
    ui.attachTab(this);
  }

  /** Show a group's page; with the address "" no longer.  Nothing where Spark has no UI. */
  static void show(String group, String address) {
    try {
      Option<SparkSession> session = SparkSession.getActiveSession().orElse(SparkSession::getDefaultSession);
      Option<SparkUI> ui = session.isEmpty() ? Option.empty() : session.get().sparkContext().ui();
      if (ui.nonEmpty()) {
        tab(ui.get()).accept(group, address);
      }
    } catch (LinkageError e) {
      LoggerFactory.getLogger("sparkcohort.reader").info("no tab in Spark's UI: this Spark has other classes ({})", e.toString());
    }
  }

  @SuppressWarnings("unchecked") // a tab of this name is ours, maybe by another class loader
  private static BiConsumer<String, String> tab(SparkUI ui) {
    synchronized (ui) {
      for (WebUITab tab : CollectionConverters.asJava(ui.getTabs())) {
        if (tab.name().equals(NAME) && tab instanceof BiConsumer) {
          return (BiConsumer<String, String>) tab;
        }
      }
      return new CohortTab(ui);
    }
  }

  @Override
  public void accept(String group, String address) {
    if (address.isEmpty()) {
      pages.remove(group);
    } else {
      pages.put(group, address);
    }
  }

  /** One frame with the page, under a line of links where the application has several queries. */
  private final class TabPage extends WebUIPage {
    TabPage() {
      super("");
    }

    @Override
    public Seq<Node> render(HttpServletRequest request) {
      List<String> groups = List.copyOf(pages.keySet());
      int chosen = Math.max(groups.indexOf(decoded(request.getParameter("group"))), 0);
      String base = UIUtils.prependBaseUri(request, "", "");
      String links = groups.stream().map(group -> link(base, group)).collect(Collectors.joining(" · ", "<p>", "</p>"));
      String content = groups.isEmpty()
          ? "<p>No query with a live page runs: option metrics.port opens one.</p>"
          : (groups.size() > 1 ? links : "") + frame(base, groups.get(chosen));
      Seq<Node> nodes = ArraySeq.unsafeWrapArray(new Node[] {new Unparsed(content)});
      return UIUtils.headerSparkPage(request, "Kafka consumer groups", () -> nodes, CohortTab.this, Option.empty(), false, false, false);
    }

    private static String link(String base, String group) {
      return "<a href=\"" + base + "/cohort/?group=" + encoded(group) + "\">" + Utility.escape(group) + "</a>";
    }

    private static String frame(String base, String group) {
      String source = base + PAGES + "/" + encoded(group) + "/";
      return "<iframe src=\"" + source + "\" title=\"" + Utility.escape(group) + "\" style=\"width:100%;height:82vh;border:0\"></iframe>";
    }
  }

  /** {@code /cohort/page/GROUP/what}, asked of the group's port: what the page asks for, and nothing else. */
  private final class Pages extends HttpServlet {
    private static final Pattern PATH = Pattern.compile("/([^/]+)/(|events|[a-z]+\\.json|rebalances/\\d{1,18})");
    private static final List<String> HEADERS = List.of("Content-Type", "Content-Security-Policy", "Cache-Control", "X-Accel-Buffering");
    private static final int CONNECT_MS = 5_000;
    private static final int SILENCE_MS = 660_000; // a stream of events lasts 600 s, and says nothing while nothing changes
    private static final String WATCHED = "Last-Event-ID";

    @Override
    protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
      var path = PATH.matcher(request.getPathInfo() == null ? "" : request.getPathInfo());
      String address = path.matches() ? pages.get(decoded(path.group(1))) : null;
      if (address == null) {
        response.sendError(HttpServletResponse.SC_NOT_FOUND, "no running query of this application has this page");
        return;
      }
      var connection = (HttpURLConnection) URI.create(address + path.group(2)).toURL().openConnection(Proxy.NO_PROXY);
      connection.setConnectTimeout(CONNECT_MS);
      connection.setReadTimeout(SILENCE_MS);
      connection.setInstanceFollowRedirects(false);
      if (request.getHeader(WATCHED) != null) {
        connection.setRequestProperty(WATCHED, request.getHeader(WATCHED));
      }
      try {
        pass(connection, response);
      } finally {
        connection.disconnect();
      }
    }

    private static void pass(HttpURLConnection connection, HttpServletResponse response) throws IOException {
      int status = connection.getResponseCode();
      response.setStatus(status);
      for (String header : HEADERS) {
        if (connection.getHeaderField(header) != null) {
          response.setHeader(header, connection.getHeaderField(header));
        }
      }
      try (InputStream body = status < HttpServletResponse.SC_BAD_REQUEST ? connection.getInputStream() : connection.getErrorStream()) {
        OutputStream viewer = response.getOutputStream();
        byte[] part = new byte[1 << 16];
        for (int length = body.read(part); length >= 0; length = body.read(part)) {
          viewer.write(part, 0, length);
          viewer.flush(); // an event is for now
        }
      }
    }
  }

  /** A group as a part of a path: any text may be one, and servers refuse escaped slashes. */
  private static String encoded(String group) {
    return HexFormat.of().formatHex(group.getBytes(StandardCharsets.UTF_8));
  }

  private static String decoded(String group) {
    return group == null || !HEX.matcher(group).matches() ? "" : new String(HexFormat.of().parseHex(group), StandardCharsets.UTF_8);
  }
}
