package io.github.redisthrottle;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.parallel.ExecutionMode.CONCURRENT;

import io.github.redisthrottle.connection.Connection;
import io.github.redisthrottle.jedis.JedisConnection;
import io.github.redisthrottle.lettuce.LettuceConnection;
import io.github.redisthrottle.testing.Clients;
import io.github.redisthrottle.testing.Cluster;
import io.github.redisthrottle.testing.Server;
import io.github.redisthrottle.testing.Watched;
import io.lettuce.core.RedisURI;
import io.lettuce.core.cluster.RedisClusterClient;
import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisClientConfig;
import redis.clients.jedis.providers.ClusterConnectionProvider;
import redis.clients.jedis.providers.ConnectionProvider;
import redis.clients.jedis.providers.SentineledConnectionProvider;

/** A cluster and a Sentinel, and what becomes of calls when one of their masters dies. */
class FailoverTest {
  private static final Limit QUOTA = Limit.fixed(1000, Duration.ofDays(1));
  private static final JedisClientConfig FAST = DefaultJedisClientConfig.builder().timeoutMillis(500).build();

  /** For calls in which a server is given the library, on a machine that is busy. */
  private static final Duration PATIENT = Duration.ofSeconds(3);

  private static boolean decided(Limiter limiter, String key) {
    try {
      return limiter.limit(key, QUOTA).allowed();
    } catch (OutageException | OverloadException e) {
      return false;
    }
  }

  @ParameterizedTest
  @Execution(CONCURRENT)
  @EnumSource
  void aClusterIsCalledWhereTheKeyIs(Clients client) {
    try (Cluster cluster = new Cluster();
        Opened opened = Opened.of(client, cluster);
        Limiter limiter = Limiter.over(opened.connection())) {
      Set<String> names = new HashSet<>();
      for (String key : new String[] {"a", "b", "c", "d", "{t}:1"}) {
        assertEquals(999, limiter.limit(key, QUOTA).remaining());
        names.add(limiter.nodeOf(key));
      }
      assertEquals(3, names.size());
      assertTrue(limiter.limitAll(Keys.of("{t}:1", QUOTA).and("{t}:2", QUOTA)).allowed());
      MistakeException apart = assertThrows(MistakeException.class, () -> limiter.limitAll(Keys.of("a", QUOTA).and("b", QUOTA)));
      assertTrue(apart.getMessage().contains("need the same hash tag, such as {42}:requests"), apart.getMessage());
      Limit window = Limit.window(1, Duration.ofSeconds(2));
      limiter.waitFor("w", window);
      Server.await("a caller waits", () -> limiter.waitFor("w", window).waited().toMillis() > 0);

      Server owner = cluster.owner("a");
      cluster.addReplica(owner);
      owner.kill();
      Server.await("the replica decides", () -> decided(limiter, "a"));
      Server.await("the others decide as before", () -> decided(limiter, "b"));
    }
  }

  /** One that hangs still takes connections, and answers nothing. Until it is awake it stays in the way of nobody. */
  @ParameterizedTest
  @Execution(CONCURRENT)
  @EnumSource
  void aMasterThatHangsIsLeftForItsReplica(Clients client) {
    try (Cluster cluster = new Cluster();
        Opened opened = Opened.of(client, cluster);
        Limiter limiter = Limiter.over(opened.connection())) {
      Server owner = cluster.owner("a");
      cluster.addReplica(owner);
      assertTrue(decided(limiter, "a") && decided(limiter, "b"));
      Lease lease = limiter.lease("{a}:jobs", Slots.of(1, Duration.ofMinutes(2)));
      Server.await("the lease lasts for its ttl", () -> owner.ttlMs("{a}:jobs") > 60_000);
      try (Jedis jedis = owner.client()) {
        jedis.set("{a}:last", "1");
        assertEquals(1, jedis.waitReplicas(1, 30_000));
      }
      owner.pause();
      Server.await("the replica decides", () -> decided(limiter, "a"));
      Server.await("the others decide as before", () -> decided(limiter, "b"));
      assertFalse(lease.isLost());
      lease.close();
      limiter.lease("{a}:jobs", Slots.of(1, Duration.ofMinutes(2))).close();
    }
  }

  @ParameterizedTest
  @Execution(CONCURRENT)
  @EnumSource
  void aSlotThatMovedIsFollowed(Clients client) {
    try (Cluster cluster = new Cluster();
        Opened opened = Opened.of(client, cluster);
        Limiter limiter = Limiter.over(opened.connection())) {
      limiter.limit("{a}:1", QUOTA);
      Server to = cluster.owner("b");
      cluster.owner("a").run("DEL", "{a}:1");
      cluster.moveSlot("a", to);
      assertEquals(999, limiter.limit("{a}:2", QUOTA).remaining());
      assertEquals(998, limiter.limit("{a}:2", QUOTA).remaining());
      try (Jedis jedis = to.client()) {
        assertTrue(jedis.exists("{a}:2"));
      }
    }
  }

  /** A server that is to name servers, and has no name of one, calls it ?. No other library gets beyond that. */
  @ParameterizedTest
  @Execution(CONCURRENT)
  @ValueSource(booleans = {false, true})
  void aServerWithoutANameIsFollowedToItsAddress(boolean waits) {
    try (Cluster cluster = new Cluster();
        Opened opened = Opened.of(Clients.LETTUCE, cluster);
        Limiter limiter = Limiter.over(opened.connection())) {
      assertTrue(limiter.limit("{a}:1", QUOTA).allowed());
      cluster.nodes.forEach(node -> node.run("CONFIG", "SET", "cluster-preferred-endpoint-type", "hostname"));
      Server to = cluster.owner("b");
      cluster.owner("a").run("DEL", "{a}:1");
      cluster.moving("a", to, false);
      assertEquals(999, (waits ? limiter.waitFor("{a}:2", QUOTA) : limiter.limit("{a}:2", QUOTA)).remaining());
      cluster.moving("a", to, true);
      assertEquals(998, (waits ? limiter.waitFor("{a}:2", QUOTA) : limiter.limit("{a}:2", QUOTA)).remaining());
      try (Jedis jedis = to.client()) {
        assertTrue(jedis.exists("{a}:2"));
      }
    }
  }

  /** While it moves and afterwards no call fails, and each is charged once. */
  @ParameterizedTest
  @Execution(CONCURRENT)
  @EnumSource
  void aSlotMovesToAMasterWithoutTheLibrary(Clients client) {
    try (Cluster cluster = Cluster.plain();
        Opened opened = Opened.of(client, cluster);
        Limiter limiter = Limiter.over(opened.connection())) {
      Server.await("it is warm", () -> decided(limiter, "a"));
      Server from = cluster.owner("a");
      Server to = cluster.nodes.stream().filter(node -> node != from).findFirst().orElseThrow();
      from.run("DEL", "a"); // a key that the old master has not is asked for at the new one
      cluster.moving("a", to, false);
      for (int taken = 1; taken <= 6; taken++) {
        assertEquals(1000 - taken, limiter.limit("a", QUOTA).remaining());
        if (taken == 3) {
          cluster.moving("a", to, true);
        }
      }
      try (Jedis jedis = to.client()) {
        assertTrue(jedis.exists("a"));
        Server.await("the new master has the library", () -> limiter.peek("a", QUOTA).allowed() && !jedis.functionList().isEmpty());
      }
    }
  }

  @ParameterizedTest
  @Execution(CONCURRENT)
  @EnumSource
  void aPasswordThatChangedIsAMistakeInACluster(Clients client) {
    try (Cluster cluster = new Cluster()) {
      cluster.password("old");
      try (Opened opened = Opened.of(client, cluster, "old");
          Limiter limiter = Limiter.over(opened.connection())) {
        assertTrue(limiter.limit("a", QUOTA).allowed());
        cluster.password("new");
        Server.await("a mistake, which nobody lets through", () -> isMistake(limiter));
        for (int i = 0; i < 20; i++) {
          assertTrue(isMistake(limiter), "it stays one");
        }
      }
    }
  }

  private static boolean isMistake(Limiter limiter) {
    try {
      limiter.limit("a", QUOTA);
      return false;
    } catch (OutageException e) {
      return false;
    } catch (MistakeException e) {
      return e.getMessage().contains("WRONGPASS");
    }
  }

  @Test
  @Execution(CONCURRENT)
  void aPasswordThatWasNeverRightIsAMistakeInACluster() {
    try (Cluster cluster = new Cluster()) {
      cluster.password("right");
      try (Opened opened = Opened.of(Clients.LETTUCE, cluster, "wrong");
          Limiter limiter = Limiter.over(opened.connection())) {
        assertTrue(isMistake(limiter));
      }
    }
  }

  @Test
  @Execution(CONCURRENT)
  void aClusterThatWasNeverReachedIsAnOutage() {
    RedisURI nowhere = RedisURI.create("127.0.0.1", 1);
    RedisClusterClient lettuce = RedisClusterClient.create(nowhere);
    try (LettuceConnection connection = LettuceConnection.over(lettuce, nowhere, Duration.ofSeconds(1));
        Limiter limiter = Limiter.over(connection)) {
      assertThrows(OutageException.class, () -> limiter.limit("a", QUOTA));
      assertEquals("", limiter.nodeOf("a"));
    } finally {
      lettuce.shutdown();
    }
  }

  @ParameterizedTest
  @Execution(CONCURRENT)
  @EnumSource
  void aSentinelSaysWhoIsMaster(Clients client) {
    try (Watched watched = new Watched();
        Opened opened = Opened.of(client, watched);
        Limiter limiter = Limiter.over(opened.connection())) {
      assertEquals(999, limiter.limit("k", QUOTA).remaining());
      watched.master.kill();
      watched.awaitFailover();
      Server.await("the replica decides", () -> decided(limiter, "k"));
    }
  }

  /** Callers that wait have connections of their own, to the master of the moment. */
  @ParameterizedTest
  @Execution(CONCURRENT)
  @EnumSource
  void manyCallersWaitForTheMasterThatASentinelNames(Clients client) {
    Limit hourly = Limit.window(1, Duration.ofHours(1));
    try (Watched watched = new Watched();
        Opened opened = Opened.of(client, watched);
        Limiter limiter = Limiter.over(Remote.over(opened.connection(), Commands.AUTO, Duration.ofSeconds(4)))) {
      Server.await("it is warm", () -> decided(limiter, "k"));
      List<CompletableFuture<Result.Allowed>> before = waiters(limiter, hourly);
      awaitBlocked(watched.master, before.size());
      assertTrue(decided(limiter, "k"), "more wait than a pool has connections");
      watched.master.kill();
      watched.awaitFailover();
      Server.await("the replica decides", () -> decided(limiter, "k"));
      for (CompletableFuture<Result.Allowed> waits : before) {
        assertTrue(Errors.unwrapped(assertThrows(CompletionException.class, waits::join)) instanceof OutageException);
      }
      List<CompletableFuture<Result.Allowed>> after = waiters(limiter, hourly);
      awaitBlocked(watched.replica, after.size());
      assertTrue(decided(limiter, "k"), "more wait than a pool has connections");
      after.forEach(waits -> waits.cancel(true));
      awaitBlocked(watched.replica, 0);
    }
  }

  private static List<CompletableFuture<Result.Allowed>> waiters(Limiter limiter, Limit limit) {
    Server.await("the limit is spent", () -> isSpent(limiter, limit));
    return Stream.generate(() -> limiter.async().waitFor("w", limit).toCompletableFuture()).limit(20).toList();
  }

  private static boolean isSpent(Limiter limiter, Limit limit) {
    try {
      return limiter.limit("w", limit).limited();
    } catch (OutageException | OverloadException e) {
      return false;
    }
  }

  private static void awaitBlocked(Server server, int callers) {
    try (Jedis jedis = server.client()) {
      Server.await(callers + " wait", () -> jedis.info("clients").contains("blocked_clients:" + callers + "\r"));
    }
  }

  /** The new master answers by then, which says nothing about the old one. */
  @ParameterizedTest
  @Execution(CONCURRENT)
  @EnumSource
  void nobodyWaitsForAMasterThatHangsOnceAnotherOneAnswers(Clients client) {
    Limit hourly = Limit.window(1, Duration.ofHours(1));
    try (Watched watched = new Watched();
        Opened opened = Opened.of(client, watched);
        Limiter limiter = Limiter.over(Remote.over(opened.connection(), Commands.AUTO, Duration.ofSeconds(4)));
        Jedis jedis = watched.master.client()) {
      Server.await("it is warm", () -> decided(limiter, "k"));
      limiter.limit("w", hourly);
      CompletableFuture<Result.Allowed> waits = limiter.async().waitFor("w", hourly).toCompletableFuture();
      Server.await("it waits", () -> jedis.info("clients").contains("blocked_clients:1\r"));
      watched.master.pause();
      watched.awaitFailover();
      Server.await("the replica decides", () -> decided(limiter, "k"));
      Server.await("the wait ends", waits::isDone);
      assertTrue(Errors.unwrapped(assertThrows(CompletionException.class, waits::join)) instanceof OutageException);
      assertTrue(decided(limiter, "k"));
    }
  }

  /** A connection, and the client that it is over. */
  private record Opened(Connection connection, Runnable client) implements AutoCloseable {
    static Opened of(Clients client, Cluster cluster) {
      return of(client, cluster, null);
    }

    static Opened of(Clients client, Cluster cluster, String password) {
      HostAndPort first = cluster.addresses().get(0);
      if (client == Clients.LETTUCE) {
        RedisURI.Builder builder = RedisURI.builder().withHost(first.getHost()).withPort(first.getPort());
        RedisURI uri = password == null ? builder.build() : builder.withPassword(password.toCharArray()).build();
        RedisClusterClient lettuce = RedisClusterClient.create(uri);
        return new Opened(LettuceConnection.over(lettuce, uri, PATIENT), lettuce::shutdown);
      }
      JedisClientConfig config = DefaultJedisClientConfig.builder().timeoutMillis((int) PATIENT.toMillis()).password(password).build();
      ConnectionProvider provider = new ClusterConnectionProvider(new HashSet<>(cluster.addresses()), config);
      return new Opened(JedisConnection.over(provider), () -> close(provider));
    }

    static Opened of(Clients client, Watched watched) {
      if (client == Clients.LETTUCE) {
        RedisURI uri = RedisURI.create("redis-sentinel://127.0.0.1:" + watched.sentinel.port + "#mymaster");
        return new Opened(LettuceConnection.of(uri, Duration.ofSeconds(1)), () -> {});
      }
      HostAndPort sentinel = new HostAndPort("127.0.0.1", watched.sentinel.port);
      ConnectionProvider provider = new SentineledConnectionProvider("mymaster", FAST, Set.of(sentinel), FAST);
      return new Opened(JedisConnection.over(provider), () -> close(provider));
    }

    private static void close(ConnectionProvider provider) {
      try {
        provider.close();
      } catch (Exception e) {
        throw new IllegalStateException(e);
      }
    }

    @Override
    public void close() {
      client.run();
    }
  }
}
