package io.github.redisthrottle.spring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redisthrottle.Lease;
import io.github.redisthrottle.Limit;
import io.github.redisthrottle.Limiter;
import io.github.redisthrottle.MistakeException;
import io.github.redisthrottle.OutageException;
import io.github.redisthrottle.OverloadException;
import io.github.redisthrottle.Slots;
import io.github.redisthrottle.ThrottleException;
import io.github.redisthrottle.testing.Cluster;
import io.github.redisthrottle.testing.Server;
import io.github.redisthrottle.testing.Tls;
import io.github.redisthrottle.testing.Watched;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.beans.factory.BeanCreationException;
import org.springframework.boot.WebApplicationType;
import redis.clients.jedis.Jedis;

/** The limiter goes where the connection factory of Spring Data Redis does, with its client: Lettuce or Jedis. */
class ConnectionsTest {
  private static final Limit HOURLY = Limit.rate(2, Duration.ofHours(1));

  private static Application start(String client, String... properties) {
    List<String> all = new ArrayList<>(List.of(properties));
    all.add("spring.data.redis.client-type=" + client);
    return Application.start(WebApplicationType.NONE, null, List.of(), all.toArray(String[]::new));
  }

  private static void limits(Application application, String key) {
    Limiter limiter = application.bean(Limiter.class);
    assertTrue(limiter.limit(key, HOURLY).allowed());
    assertTrue(limiter.limit(key, HOURLY).allowed());
    assertTrue(limiter.limit(key, HOURLY).limited());
  }

  @ParameterizedTest
  @ValueSource(strings = {"lettuce", "jedis"})
  void aServerWithAUserAndADatabase(String client) {
    try (Server server = Server.start()) {
      server.run("ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all");
      String port = "spring.data.redis.port=" + server.port;
      try (Application application = start(client, port, "spring.data.redis.username=app", "spring.data.redis.password=secret", "spring.data.redis.database=3");
          Jedis redis = server.client()) {
        limits(application, "key");
        redis.select(3);
        assertTrue(redis.exists("key"));
        assertTrue(redis.clientList().lines().anyMatch(line -> line.contains("user=app") && line.contains("db=3")), redis::clientList);
      }
      try (Application wrong = start(client, port, "spring.data.redis.username=app", "spring.data.redis.password=wrong")) {
        assertThrows(MistakeException.class, () -> wrong.bean(Limiter.class).limit("key", HOURLY));
      }
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"lettuce", "jedis"})
  void aMasterThatASentinelNames(String client) {
    try (Watched watched = new Watched();
        Application application =
            start(client, "spring.data.redis.sentinel.master=mymaster", "spring.data.redis.sentinel.nodes=127.0.0.1:" + watched.sentinel.port);
        Jedis master = watched.master.client()) {
      limits(application, "key");
      assertTrue(master.exists("key"));
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"lettuce", "jedis"})
  void aClusterWithAPassword(String client) {
    try (Cluster cluster = new Cluster()) {
      cluster.password("secret");
      String nodes = cluster.addresses().stream().map(String::valueOf).collect(Collectors.joining(","));
      try (Application application = start(client, "spring.data.redis.cluster.nodes=" + nodes, "spring.data.redis.password=secret")) {
        for (String key : List.of("a", "b", "c")) {
          limits(application, key);
          try (Jedis owner = cluster.owner(key).client()) {
            owner.auth("secret");
            assertTrue(owner.exists(key));
          }
        }
      }
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"lettuce", "jedis"})
  void aClusterOverTls(String client) {
    try (Tls tls = new Tls();
        Cluster cluster = new Cluster(tls)) {
      String nodes = "spring.data.redis.cluster.nodes=" + cluster.tlsPorts.stream().map(port -> "127.0.0.1:" + port).collect(Collectors.joining(","));
      String trusted = "spring.ssl.bundle.pem.redis.truststore.certificate=file:" + tls.certificate();
      try (Application application = start(client, nodes, "spring.data.redis.ssl.bundle=redis", trusted)) {
        for (String key : List.of("a", "b", "c")) {
          limits(application, key);
          Server owner = cluster.owner(key);
          try (Jedis redis = owner.client()) {
            assertTrue(redis.exists(key));
            List<String> plain = redis.clientList().lines().filter(line -> line.contains("laddr=127.0.0.1:" + owner.port + " ")).toList();
            assertEquals(1, plain.size(), () -> "others than this test have no TLS: " + plain);
          }
        }
      }
      if (client.equals("jedis")) { // Jedis asks a cluster for its slots at start
        assertThrows(BeanCreationException.class, () -> start(client, nodes, "spring.data.redis.ssl.enabled=true"));
        return;
      }
      try (Application wrong = start(client, nodes, "spring.data.redis.ssl.enabled=true")) {
        ThrottleException refused = assertThrows(ThrottleException.class, () -> wrong.bean(Limiter.class).limit("key", HOURLY));
        assertFalse(refused instanceof OverloadException, refused::toString);
      }
    }
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "lettuce,spring.data.redis.port=",
        "jedis,spring.data.redis.port=",
        "lettuce,redis-throttle.url=redis://127.0.0.1:",
        "lettuce,spring.data.redis.sentinel.master=mymaster,spring.data.redis.sentinel.nodes=127.0.0.1:",
      })
  void anApplicationStartsWithoutRedis(String properties) {
    try (Watched watched = properties.contains("sentinel") ? new Watched() : null;
        Server alone = watched == null ? Server.start() : null) {
      Server away = watched == null ? alone : watched.sentinel;
      away.kill();
      String[] words = (properties + away.port).split(",", -1);
      try (Application application = start(words[0], List.of(words).subList(1, words.length).toArray(String[]::new))) {
        Limiter limiter = application.bean(Limiter.class);
        assertThrows(OutageException.class, () -> limiter.limit("key", HOURLY));
        away.launch();
        Server.await("the limiter decides", () -> decides(limiter));
      }
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"lettuce", "jedis"})
  void anApplicationStartsWhileRedisHangs(String client) {
    try (Server server = Server.start()) {
      server.pause();
      try (Application application = start(client, "spring.data.redis.port=" + server.port, "redis-throttle.timeout=200ms")) {
        Limiter limiter = application.bean(Limiter.class);
        assertThrows(OutageException.class, () -> limiter.limit("key", HOURLY));
        server.resume();
        Server.await("the limiter decides", () -> decides(limiter));
      }
    }
  }

  private static boolean decides(Limiter limiter) {
    try {
      limiter.limit("key", HOURLY);
      return true;
    } catch (OutageException e) {
      return false;
    }
  }

  @Test
  void aContextThatIsClosedHasEndedItsLeasesAndThreads() {
    try (Server server = Server.start()) {
      for (String client : List.of("lettuce", "jedis")) {
        List<Thread> before = List.copyOf(Thread.getAllStackTraces().keySet());
        try (Application application =
            Application.start(
                WebApplicationType.NONE, null, List.of(Holder.class), "spring.data.redis.client-type=" + client, "spring.data.redis.port=" + server.port)) {
          Limiter limiter = application.bean(Limiter.class);
          assertTrue(limiter.limit(client, HOURLY).allowed());
          assertFalse(application.bean(Holder.class).lease.isLost());
        }
        try (Jedis redis = server.client()) {
          assertFalse(redis.exists("leader"), "the slot is free");
        }
        Server.await("connections are closed", () -> connections(server) == 1);
        Server.await("threads have ended", () -> left(before).isEmpty());
      }
      assertEquals(1, connections(server));
    }
  }

  private static long connections(Server server) {
    try (Jedis redis = server.client()) {
      return redis.clientList().lines().count();
    }
  }

  private static List<String> left(List<Thread> before) {
    return Thread.getAllStackTraces().keySet().stream()
        .filter(thread -> thread.isAlive() && !before.contains(thread))
        .map(Thread::getName)
        .filter(name -> name.startsWith("throttle") || name.startsWith("lettuce") || name.contains("jedis") || name.contains("commons-pool"))
        .toList();
  }

  /** Holds a slot for as long as the application runs. */
  static class Holder implements AutoCloseable {
    final Lease lease;

    Holder(Limiter limiter) {
      lease = limiter.lease("leader", Slots.of(1, Duration.ofMinutes(1)));
    }

    @Override
    public void close() {
      lease.close();
    }
  }
}
