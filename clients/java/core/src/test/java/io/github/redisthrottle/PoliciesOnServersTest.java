package io.github.redisthrottle;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redisthrottle.connection.Connection;
import io.github.redisthrottle.jedis.JedisConnection;
import io.github.redisthrottle.lettuce.LettuceConnection;
import io.github.redisthrottle.testing.Clients;
import io.github.redisthrottle.testing.Cluster;
import io.github.redisthrottle.testing.Server;
import io.lettuce.core.RedisURI;
import io.lettuce.core.cluster.RedisClusterClient;
import java.net.URI;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.providers.ClusterConnectionProvider;

/** Policies in the hash of a real server. */
class PoliciesOnServersTest {
  private static final String HASH = "throttle:policies";
  private static final int CALLERS = 8;
  private static final Limit[] API = Limits.policy("api", Limit.fixed(300, Duration.ofDays(1)).first());
  private static final Policies.Options QUIET = Policies.Options.DEFAULT.log((level, line) -> {}).refresh(Duration.ofMillis(100));

  private static void set(Server server, String field, String value) {
    try (var jedis = server.client()) {
      jedis.hset(HASH, field, value);
    }
  }

  private static Limiter limiter(Connection connection) {
    return Limiter.over(Policies.of(Remote.over(connection), connection, QUIET));
  }

  /** Two processes with callers each, whose number is changed up and down while they ask. */
  @ParameterizedTest
  @EnumSource
  void aNumberIsChangedUnderLoad(Clients client) throws Exception {
    ExecutorService threads = Executors.newCachedThreadPool();
    AtomicBoolean over = new AtomicBoolean();
    AtomicInteger granted = new AtomicInteger();
    Map<Integer, Long> denied = new ConcurrentHashMap<>(); // the limit by which a caller was denied last
    try (Server server = Server.start();
        Limiter one = limiter(client.patient(server.port));
        Limiter another = limiter(client.patient(server.port))) {
      List<Future<?>> callers = new ArrayList<>();
      for (int i = 0; i < CALLERS; i++) {
        int caller = i;
        callers.add(
            threads.submit(
                () -> {
                  while (!over.get()) {
                    Result result = (caller % 2 == 0 ? one : another).limit("user:1", API);
                    if (result.limited()) {
                      denied.put(caller, result.limit());
                    } else {
                      granted.incrementAndGet();
                    }
                  }
                }));
      }
      awaitDenied(denied, 300);
      assertEquals(300, granted.get());
      set(server, "api", "FIXED 500/d FIRST");
      awaitDenied(denied, 500);
      assertEquals(500, granted.get());
      set(server, "api/user:*", "FIXED 400/d FIRST");
      awaitDenied(denied, 400);
      assertEquals(500, granted.get());
      over.set(true);
      for (Future<?> caller : callers) {
        caller.get(); // no call has failed
      }
    } finally {
      over.set(true);
      threads.shutdown();
    }
  }

  private static void awaitDenied(Map<Integer, Long> denied, long limit) {
    Server.await("everybody is denied by " + limit, () -> denied.size() == CALLERS && new HashSet<>(denied.values()).equals(new HashSet<>(List.of(limit))));
  }

  @ParameterizedTest
  @EnumSource
  void theLineNamesTheRightThatIsMissing(Clients client) {
    List<String> lines = new CopyOnWriteArrayList<>();
    try (Server server = Server.start()) {
      server.run("ACL", "SETUSER", "app", "on", ">app", "~user:*", "+@all", "-hgetall");
      String url = "redis://app:app@127.0.0.1:" + server.port;
      Duration timeout = Duration.ofSeconds(30);
      Connection connection = client == Clients.JEDIS ? JedisConnection.of(URI.create(url), timeout) : LettuceConnection.of(RedisURI.create(url), timeout);
      try (Limiter limiter = Limiter.over(Policies.of(Remote.over(connection), connection, QUIET.log((level, line) -> lines.add(line))))) {
        assertEquals(300, limiter.limit("user:1", API).limit());
        Server.await("it is said", () -> !lines.isEmpty());
        assertTrue(lines.get(0).endsWith("its user needs +hgetall +hget %R~throttle:policies"), lines.get(0));
      }
    }
  }

  @Test
  void theHashIsFoundInACluster() {
    Cluster cluster = new Cluster();
    RedisURI uri = RedisURI.create(cluster.nodes.get(0).url());
    RedisClusterClient lettuce = RedisClusterClient.create(uri);
    ClusterConnectionProvider jedis =
        new ClusterConnectionProvider(new HashSet<>(cluster.addresses()), DefaultJedisClientConfig.builder().timeoutMillis(30_000).build());
    try (jedis) {
      set(cluster.owner(HASH), "api", "FIXED 7/d");
      for (Connection connection : List.of(LettuceConnection.over(lettuce, uri, Duration.ofSeconds(30)), JedisConnection.over(jedis))) {
        try (Limiter limiter = limiter(connection)) {
          for (int i = 0; i < 10; i++) {
            String key = "user:" + i;
            Server.await("the policy counts", () -> limiter.limit(key, API).limit() == 7);
          }
        }
      }
    } finally {
      lettuce.shutdown();
      cluster.close();
    }
  }
}
