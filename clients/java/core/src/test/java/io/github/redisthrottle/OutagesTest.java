package io.github.redisthrottle;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.parallel.ExecutionMode.CONCURRENT;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.github.redisthrottle.connection.Connection;
import io.github.redisthrottle.jedis.JedisConnection;
import io.github.redisthrottle.lettuce.LettuceConnection;
import io.github.redisthrottle.testing.Clients;
import io.github.redisthrottle.testing.Cluster;
import io.github.redisthrottle.testing.Server;
import io.github.redisthrottle.testing.Tls;
import io.lettuce.core.ClientOptions;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.SslOptions;
import io.lettuce.core.cluster.ClusterClientOptions;
import io.lettuce.core.cluster.RedisClusterClient;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.URI;
import java.nio.file.Path;
import java.security.NoSuchAlgorithmException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import javax.net.ssl.SSLContext;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.JedisClientConfig;
import redis.clients.jedis.providers.ClusterConnectionProvider;

/**
 * Runs spec/clients/outages.json: what errors say of a server that is out of reach, or lets nobody in. Jedis asks
 * clusters and Sentinels when a provider is made, before this package has it, and fails by itself then.
 */
class OutagesTest {
  private static final Limit QUOTA = Limit.fixed(1000, Duration.ofDays(1));
  private static final Duration TIMEOUT = Duration.ofSeconds(1);
  private static final Duration PATIENT = Duration.ofSeconds(30);
  private static final Set<String> UNSENT = Set.of("nobody listens", "no such name");
  private static final List<AutoCloseable> OPEN = new ArrayList<>();
  private static Map<String, String> at;
  private static Path trusted;

  @BeforeAll
  static void start() throws IOException, NoSuchAlgorithmException {
    Server hangs = opened(Server.start());
    hangs.pause();
    Server locked = opened(Server.start());
    locked.run("CONFIG", "SET", "requirepass", "another");
    Tls expired = opened(Tls.expired());
    trusted = expired.authority();
    SSLContext before = SSLContext.getDefault();
    OPEN.add(() -> SSLContext.setDefault(before));
    SSLContext.setDefault(Tls.trusting(trusted)); // Jedis takes what Java trusts
    String untrusted = speaksTls(opened(new Tls()));
    String lapsed = speaksTls(expired);
    ServerSocket closes = opened(new ServerSocket(0, 0, InetAddress.getLoopbackAddress()));
    Thread thread = new Thread(() -> closeAll(closes), "closes");
    thread.setDaemon(true);
    thread.start();
    at =
        Map.of(
            "nobody listens", "127.0.0.1:" + Server.freePort(),
            "no such name", "nobody.invalid:6379",
            "hangs", "127.0.0.1:" + hangs.port,
            "closes", "127.0.0.1:" + closes.getLocalPort(),
            "speaks TLS alone", untrusted,
            "speaks no TLS", "localhost:" + opened(Server.start()).port,
            "untrusted certificate", untrusted,
            "expired certificate", lapsed,
            "another password", "127.0.0.1:" + locked.port,
            "a password", "127.0.0.1:" + locked.port);
  }

  @AfterAll
  static void stop() throws Exception {
    for (int i = OPEN.size() - 1; i >= 0; i--) {
      OPEN.get(i).close();
    }
  }

  private static <T extends AutoCloseable> T opened(T it) {
    OPEN.add(it);
    return it;
  }

  private static String speaksTls(Tls tls) {
    int port = Server.freePort();
    opened(Server.start(tls.options(port).toArray(String[]::new)));
    return "localhost:" + port;
  }

  private static void closeAll(ServerSocket listener) {
    while (true) {
      try {
        listener.accept().close();
      } catch (IOException e) { // the test has ended
        return;
      }
    }
  }

  /** A connection, and the client that it is over. */
  private record Opened(Connection connection, Runnable client) implements AutoCloseable {
    static Opened of(Clients client, String kind, String where, JsonNode one) {
      String password = one.path("password").asBoolean() ? ":" + table().get("password").asText() + "@" : "";
      boolean tls = one.path("tls").asBoolean();
      String uri = (tls ? "rediss://" : "redis://") + password + where;
      Duration timeout = one.get("server").asText().equals("no such name") ? PATIENT : TIMEOUT; // a resolver takes its time
      return client == Clients.LETTUCE ? lettuce(kind, uri, tls, timeout) : new Opened(JedisConnection.of(URI.create(uri), timeout), () -> {});
    }

    private static Opened lettuce(String kind, String uri, boolean tls, Duration timeout) {
      ClientOptions.Builder options = kind.equals("cluster") ? ClusterClientOptions.builder() : ClientOptions.builder();
      if (tls) {
        options.sslOptions(SslOptions.builder().jdkSslProvider().trustManager(trusted.toFile()).build());
      }
      RedisURI seed = RedisURI.create(uri);
      if (kind.equals("cluster")) {
        RedisClusterClient cluster = RedisClusterClient.create(seed);
        cluster.setOptions((ClusterClientOptions) options.build());
        return new Opened(LettuceConnection.over(cluster, seed, timeout), cluster::shutdown);
      }
      RedisURI master = kind.equals("server") ? seed : RedisURI.Builder.sentinel(seed.getHost(), seed.getPort(), "mymaster").build();
      RedisClient one = RedisClient.create();
      one.setOptions(options.build());
      return new Opened(LettuceConnection.over(one, master, timeout), one::shutdown);
    }

    @Override
    public void close() {
      client.run();
    }
  }

  private static JsonNode table() {
    try {
      return new ObjectMapper().readTree(Server.ROOT.resolve("spec/clients/outages.json").toFile());
    } catch (IOException e) {
      throw new IllegalStateException(e);
    }
  }

  @TestFactory
  @Execution(CONCURRENT)
  Stream<DynamicTest> anErrorNamesTheServerAndWhatIsWrong() {
    List<DynamicTest> tests = new ArrayList<>();
    for (JsonNode one : table().get("cases")) {
      List<String> kinds = new ArrayList<>();
      one.path("kinds").forEach(kind -> kinds.add(kind.asText()));
      for (String kind : kinds.isEmpty() ? List.of("server", "cluster", "sentinel") : kinds) {
        tests.add(DynamicTest.dynamicTest("LETTUCE, " + kind + ": " + one.get("server").asText(), () -> says(Clients.LETTUCE, kind, one)));
      }
      tests.add(DynamicTest.dynamicTest("JEDIS: " + one.get("server").asText(), () -> says(Clients.JEDIS, "server", one)));
    }
    return tests.stream();
  }

  private static void says(Clients client, String kind, JsonNode one) {
    String where = at.get(one.get("server").asText());
    Pattern says = Pattern.compile(one.get("says").asText(), Pattern.CASE_INSENSITIVE);
    List<ThrottleException> errors = new ArrayList<>();
    Lines log = new Lines();
    Logger.getLogger("").addHandler(log);
    try {
      // A busy process may be too late for an answer, which is an overload.
      Server.await(
          one.toString(),
          () -> {
            ThrottleException error = ask(client, kind, where, one);
            errors.add(error);
            String text = error.getMessage();
            boolean isUnsent = !kind.equals("server") || !UNSENT.contains(one.get("server").asText()) || (error instanceof OutageException outage && !outage.sent());
            return error.code().equals(one.get("code").asText()) && says.matcher(text).find() && text.contains(where) && isUnsent;
          });
    } catch (AssertionError e) {
      throw new AssertionError(e.getMessage() + ": " + errors.get(errors.size() - 1), errors.get(errors.size() - 1));
    } finally {
      Logger.getLogger("").removeHandler(log);
    }
    String all = errors + " " + log.texts;
    assertFalse(all.contains("secret-key") || all.contains(table().get("password").asText()), all);
  }

  private static ThrottleException ask(Clients client, String kind, String where, JsonNode one) {
    try (Opened opened = Opened.of(client, kind, where, one);
        Limiter limiter = Limiter.over(opened.connection())) {
      return assertThrows(ThrottleException.class, () -> limiter.limit("a-secret-key", QUOTA));
    }
  }

  @ParameterizedTest
  @Execution(CONCURRENT)
  @EnumSource
  void keysOfTwoSlotsNeedAHashTag(Clients client) {
    JsonNode rule = table().get("crossslot");
    try (Cluster cluster = new Cluster();
        Limiter limiter = Limiter.over(cluster(client, cluster))) {
      ThrottleException error = assertThrows(ThrottleException.class, () -> limiter.limitAll(Keys.of("a", QUOTA).and("b", QUOTA)));
      assertEquals(rule.get("code").asText(), error.code());
      assertTrue(Pattern.compile(rule.get("says").asText()).matcher(error.getMessage()).find(), error::getMessage);
    }
  }

  private static Connection cluster(Clients client, Cluster cluster) {
    if (client == Clients.LETTUCE) {
      RedisURI uri = RedisURI.create(cluster.nodes.get(0).url());
      RedisClusterClient lettuce = opened(RedisClusterClient.create(uri));
      return LettuceConnection.over(lettuce, uri, PATIENT);
    }
    JedisClientConfig config = DefaultJedisClientConfig.builder().timeoutMillis((int) PATIENT.toMillis()).build();
    return JedisConnection.over(opened(new ClusterConnectionProvider(new HashSet<>(cluster.addresses()), config)));
  }

  /** What was logged. */
  private static final class Lines extends Handler {
    final ConcurrentLinkedQueue<String> texts = new ConcurrentLinkedQueue<>();

    @Override
    public void publish(LogRecord line) {
      texts.add(line.getMessage() + " " + line.getThrown());
    }

    @Override
    public void flush() {}

    @Override
    public void close() {}
  }
}
