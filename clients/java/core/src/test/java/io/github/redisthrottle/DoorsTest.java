package io.github.redisthrottle;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.github.redisthrottle.connection.Connection;
import io.github.redisthrottle.connection.ErrorReply;
import io.github.redisthrottle.jedis.JedisConnection;
import io.github.redisthrottle.lettuce.LettuceConnection;
import io.github.redisthrottle.testing.Server;
import io.lettuce.core.RedisURI;
import java.io.IOException;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.providers.PooledConnectionProvider;

/** Runs spec/clients/doors.json: how calls are sent to a server with the module, and to one without it. */
class DoorsTest {
  private static final Limit QUOTA = Limit.fixed(5, Duration.ofDays(1));
  private static final Logger LOG = Logger.getLogger("io.github.redisthrottle");
  private static Server plain;
  private static Server module;

  @BeforeAll
  static void start() {
    plain = Server.plain();
    module = Server.start();
  }

  @AfterAll
  static void stop() {
    plain.close();
    module.close();
  }

  @TestFactory
  Stream<DynamicTest> rules() throws IOException {
    JsonNode table = new ObjectMapper().readTree(Server.ROOT.resolve("spec/clients/doors.json").toFile());
    List<DynamicTest> tests = new ArrayList<>();
    for (JsonNode one : table.get("cases")) {
      tests.add(DynamicTest.dynamicTest(one.get("rule").asText(), () -> holds(one)));
    }
    return tests.stream();
  }

  /** Runs spec/clients/missing.json: which answers mean that a command is not there. */
  @TestFactory
  Stream<DynamicTest> answersSayWhetherTheCommandIsThere() throws IOException {
    JsonNode table = new ObjectMapper().readTree(Server.ROOT.resolve("spec/clients/missing.json").toFile());
    Set<String> there = Set.of("mistake", "outage", "load", "again", "EVAL");
    List<DynamicTest> tests = new ArrayList<>();
    for (JsonNode one : table.get("cases")) {
      ErrorReply reply = new ErrorReply(one.get("reply").asText());
      boolean isThere = there.contains(one.get("leads_to").asText()) || one.has("asks_again_ms");
      String right = reply.text().startsWith("NOPERM") ? one.path("lacks").asText("") : "";
      tests.add(DynamicTest.dynamicTest(one.get("from").asText() + ": " + reply.text(), () -> {
        assertEquals(!isThere, Missing.is(reply));
        assertEquals(right, Missing.right(reply).orElse(""));
      }));
    }
    return tests.stream();
  }

  @Test
  void theLibraryOfSomebodyElseIsLeftAlone() {
    try (Jedis jedis = plain.client()) {
      prepare(jedis, new ObjectMapper().createObjectNode().put("library", "N-1"));
      run(jedis, "FUNCTION", "LOAD", "#!lua name=throttle\nredis.register_function('theirs', function() return 'kept' end)");
      try (Limiter limiter = Limiter.over(Remote.over(JedisConnection.of(URI.create("redis://127.0.0.1:" + plain.port), Duration.ofSeconds(30)), Commands.AUTO))) {
        assertTrue(limiter.limit("k", QUOTA).allowed());
      }
      assertEquals("kept", jedis.fcall("theirs", List.of(), List.of()));
      assertEquals(Library.VERSION, jedis.fcallReadonly("cl_version", List.of(), List.of()));
    }
  }

  /** Jedis 8 speaks RESP3 by default, in which FUNCTION LIST replies with maps. */
  @Test
  void anOlderLibraryOfAnOperatorIsReplacedAlsoInResp3() {
    try (Jedis jedis = plain.client()) {
      prepare(jedis, new ObjectMapper().createObjectNode().put("library", "N-1").put("by_hand", true));
      DefaultJedisClientConfig config =
          DefaultJedisClientConfig.builder().user("app").password("app").protocol(RedisProtocol.RESP3).socketTimeoutMillis(30_000).build();
      try (PooledConnectionProvider provider = new PooledConnectionProvider(new HostAndPort("127.0.0.1", plain.port), config);
          Limiter limiter = Limiter.over(Remote.over(JedisConnection.over(provider)))) {
        assertTrue(limiter.limit("k", QUOTA).allowed());
      }
      assertEquals(Library.VERSION, jedis.fcallReadonly("cl_version", List.of(), List.of()));
    }
  }

  @Test
  void aServerThatIsSentScriptsIsAskedAgainLater() {
    Duration before = Doors.doorsLast;
    Doors.doorsLast = Duration.ZERO;
    try (Jedis jedis = plain.client()) {
      prepare(jedis, new ObjectMapper().createObjectNode().set("acl", new ObjectMapper().createArrayNode().add("-function")));
      URI uri = URI.create("redis://app:app@127.0.0.1:" + plain.port);
      try (Limiter limiter = Limiter.over(Remote.over(JedisConnection.of(uri, Duration.ofSeconds(30)), Commands.AUTO))) {
        assertEquals(4, limiter.limit("k", QUOTA).remaining());
        run(jedis, "ACL", "SETUSER", "app", "+@all");
        assertEquals(3, limiter.limit("k", QUOTA).remaining());
      }
      assertEquals(Library.VERSION, jedis.fcallReadonly("cl_version", List.of(), List.of()));
    } finally {
      Doors.doorsLast = before;
    }
  }

  private static final Map<String, Function<String, Connection>> DRIVERS =
      Map.of(
          "Jedis", uri -> JedisConnection.of(URI.create(uri), Duration.ofSeconds(30)),
          "Lettuce", uri -> LettuceConnection.of(RedisURI.create(uri), Duration.ofSeconds(30)));

  /** Redis 7.0 puts ERR before what a script has met. */
  @TestFactory
  Stream<DynamicTest> aServerThatBecameAReplicaIsAnOutageAlsoForAScript() {
    return DRIVERS.entrySet().stream().map(driver -> DynamicTest.dynamicTest(driver.getKey(), () -> becomesAReplica(driver.getValue())));
  }

  private static void becomesAReplica(Function<String, Connection> driver) {
    try (Server server = Server.plain();
        Jedis jedis = server.client()) {
      run(jedis, "ACL", "SETUSER", "app", "on", ">app", "~*", "+@all", "-function|load");
      try (Limiter limiter = Limiter.over(Remote.over(driver.apply("redis://app:app@127.0.0.1:" + server.port), Commands.AUTO))) {
        assertEquals(4, limiter.limit("k", QUOTA).remaining());
        jedis.replicaof("127.0.0.1", 1);
        for (int i = 0; i < 2; i++) {
          OutageException outage = assertThrows(OutageException.class, () -> limiter.limit("k", QUOTA));
          assertTrue(outage.getMessage().contains("READONLY"), outage::getMessage);
        }
        jedis.replicaofNoOne();
        assertEquals(3, limiter.limit("k", QUOTA).remaining());
      }
    }
  }

  @TestFactory
  Stream<DynamicTest> bothDriversReplaceAnOlderLibraryInOneTransactionOrNotAtAll() {
    return DRIVERS.entrySet().stream()
        .flatMap(
            driver ->
                Stream.of("", "-multi", "-function|load", "-function|delete")
                    .map(rule -> DynamicTest.dynamicTest(driver.getKey() + " " + rule, () -> replaces(driver.getValue(), rule))));
  }

  private static void replaces(Function<String, Connection> driver, String rule) {
    try (Jedis jedis = plain.client()) {
      ObjectNode older = new ObjectMapper().createObjectNode().put("library", "N-1");
      if (!rule.isEmpty()) {
        older.putArray("acl").add(rule);
      }
      prepare(jedis, older);
      jedis.configResetStat();
      try (Limiter limiter = Limiter.over(Remote.over(driver.apply("redis://app:app@127.0.0.1:" + plain.port), Commands.AUTO))) {
        assertEquals(4, limiter.limit("k", QUOTA).remaining());
        assertEquals(3, limiter.limit("k", QUOTA).remaining());
      }
      assertEquals(version(rule.isEmpty() ? "N" : "N-1"), jedis.fcallReadonly("cl_version", List.of(), List.of()));
      assertEquals(rule.isEmpty(), jedis.info("commandstats").contains("cmdstat_exec:calls=1,") && !jedis.info("commandstats").contains("cmdstat_evalsha"));
    }
  }

  private static void holds(JsonNode one) {
    Server server = one.path("module").asBoolean() ? module : plain;
    Lines lines = new Lines();
    LOG.addHandler(lines);
    try (Jedis jedis = server.client()) {
      prepare(jedis, one);
      URI uri = URI.create("redis://app:app@127.0.0.1:" + server.port);
      try (Limiter limiter = Limiter.over(Remote.over(JedisConnection.of(uri, Duration.ofSeconds(30)),
          Commands.valueOf(one.get("commands").asText().toUpperCase(Locale.ROOT))))) {
        if (one.has("inspect")) {
          MistakeException mistake = assertThrows(MistakeException.class, () -> limiter.inspect("k"));
          assertTrue(mistake.getMessage().contains(one.get("inspect").asText()), mistake::getMessage);
        }
        String door = one.get("door").asText();
        if (door.equals("none")) {
          MistakeException mistake = assertThrows(MistakeException.class, () -> limiter.limit("k", QUOTA));
          assertTrue(mistake.getMessage().contains(one.path("says").asText()), mistake::getMessage);
          return;
        }
        assertEquals(4, limiter.limit("k", QUOTA).remaining());
        jedis.configResetStat();
        long left = 3;
        assertEquals(left, limiter.limit("k", QUOTA).remaining());
        assertEquals(door, door(jedis));
        if (one.has("loaded")) {
          assertEquals(version(one.get("loaded").asText()), jedis.fcallReadonly("cl_version", List.of(), List.of()));
        }
        for (JsonNode then : one.path("then")) {
          run(jedis, then.asText().split(" "));
          assertEquals(--left, limiter.limit("k", QUOTA).remaining(), then.asText());
        }
      }
      String line = one.path("log").asText("").replace("N+1", dotted("N+1")).replace("N-1", dotted("N-1"));
      String want = line.replace(" N ", " " + dotted("N") + " ").replace(" N:", " " + dotted("N") + ":");
      assertTrue(want.isEmpty() ? lines.texts.isEmpty() : lines.texts.get(0).contains(want), () -> want + " in " + lines.texts);
    } finally {
      LOG.removeHandler(lines);
    }
  }

  private static void prepare(Jedis jedis, JsonNode one) {
    jedis.flushAll();
    run(jedis, "FUNCTION", "FLUSH");
    run(jedis, "SCRIPT", "FLUSH");
    if (one.has("library")) {
      String version = String.valueOf(version(one.get("library").asText()));
      String name = one.path("by_hand").asBoolean() ? "throttle" : "throttle_" + version;
      String text = Library.NAMED.replaceFirst("name=throttle_\\d+", "name=" + name).replaceFirst("local VERSION = \\d+", "local VERSION = " + version);
      run(jedis, "FUNCTION", "LOAD", text);
    }
    if (one.has("theirs")) {
      run(jedis, "FUNCTION", "LOAD", "#!lua name=theirs\n" + one.get("theirs").asText());
    }
    List<String> rules = new ArrayList<>(List.of("SETUSER", "app", "reset", "on", ">app", "+@all", "~*"));
    one.path("acl").forEach(rule -> rules.add(rule.asText()));
    run(jedis, Stream.concat(Stream.of("ACL"), rules.stream()).toArray(String[]::new));
  }

  private static String door(Jedis jedis) {
    String stats = jedis.info("commandstats");
    if (stats.contains("cmdstat_evalsha")) {
      return "script";
    }
    return stats.contains("cmdstat_fcall:") ? "library" : "module";
  }

  private static long version(String text) {
    return Library.VERSION + (text.equals("N") ? 0 : Long.parseLong(text.substring(1)));
  }

  private static String dotted(String text) {
    return Library.dotted(version(text));
  }

  private static void run(Jedis jedis, String... words) {
    byte[] name = words[0].getBytes(StandardCharsets.UTF_8);
    try {
      jedis.sendCommand(() -> name, Arrays.copyOfRange(words, 1, words.length));
    } catch (JedisDataException e) {
      throw new IllegalStateException(String.join(" ", words).substring(0, 20), e);
    }
  }

  /** What was logged. */
  private static final class Lines extends Handler {
    final List<String> texts = new ArrayList<>();

    @Override
    public void publish(LogRecord line) {
      texts.add(line.getMessage());
    }

    @Override
    public void flush() {}

    @Override
    public void close() {}
  }
}
