package io.github.redisthrottle.spring;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redisthrottle.Limit;
import io.github.redisthrottle.Limiter;
import io.github.redisthrottle.OutageException;
import io.github.redisthrottle.testing.Cluster;
import io.github.redisthrottle.testing.Server;
import io.github.redisthrottle.testing.Watched;
import io.lettuce.core.ReadFrom;
import io.lettuce.core.RedisCredentials;
import io.lettuce.core.RedisCredentialsProvider;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.springframework.boot.WebApplicationType;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Primary;
import org.springframework.core.env.Environment;
import org.springframework.data.redis.connection.RedisClusterConfiguration;
import org.springframework.data.redis.connection.RedisConfiguration;
import org.springframework.data.redis.connection.RedisSentinelConfiguration;
import org.springframework.data.redis.connection.RedisSocketConfiguration;
import org.springframework.data.redis.connection.RedisStandaloneConfiguration;
import org.springframework.data.redis.connection.RedisStaticMasterReplicaConfiguration;
import org.springframework.data.redis.connection.jedis.JedisClientConfiguration;
import org.springframework.data.redis.connection.jedis.JedisConnectionFactory;
import org.springframework.data.redis.connection.lettuce.LettuceClientConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.data.redis.connection.lettuce.RedisCredentialsProviderFactory;
import reactor.core.publisher.Mono;
import redis.clients.jedis.DefaultRedisCredentials;
import redis.clients.jedis.Jedis;

/**
 * The limiter takes everything from a factory of Spring Data Redis: each of its configurations, with credentials that a
 * provider gives.
 */
class FactoriesTest {
  private static final Limit HOURLY = Limit.rate(2, Duration.ofHours(1));

  /** Tells the passwords of a user, of which each is asked for anew. */
  static class Credentials implements RedisCredentialsProviderFactory {
    static final AtomicInteger ASKED = new AtomicInteger();

    @Override
    public RedisCredentialsProvider createCredentialsProvider(RedisConfiguration configuration) {
      return () -> Mono.fromSupplier(() -> RedisCredentials.just("app", "token" + Math.min(ASKED.incrementAndGet(), 1)));
    }

    @Override
    public RedisCredentialsProvider createSentinelCredentialsProvider(RedisSentinelConfiguration configuration) {
      return () -> Mono.just(RedisCredentials.just("watcher", "seen"));
    }
  }

  private static LettuceClientConfiguration lettuce() {
    return LettuceClientConfiguration.builder()
        .clientName("shop")
        .readFrom(ReadFrom.REPLICA_PREFERRED)
        .redisCredentialsProviderFactory(new Credentials())
        .build();
  }

  private static JedisClientConfiguration jedis() {
    return JedisClientConfiguration.builder()
        .clientName("shop")
        .customize(builder -> builder.credentials(new DefaultRedisCredentials("app", "token1")))
        .build();
  }

  private static void user(Server... servers) {
    for (Server server : servers) {
      server.run("ACL", "SETUSER", "app", "on", ">token1", "~*", "&*", "+@all");
    }
  }

  private static Application start(Class<?> beans, String... properties) {
    return Application.start(WebApplicationType.NONE, null, List.of(beans), properties);
  }

  /**
   * Uses up a limit, and looks for it in a database of a server that a client with the name and user of the factory has
   * called.
   */
  private static void limits(Application application, Server at, int database) {
    Limiter limiter = application.bean(Limiter.class);
    assertTrue(limiter.limit("{key}", HOURLY).allowed());
    assertTrue(limiter.limit("{key}", HOURLY).allowed());
    assertTrue(limiter.limit("{key}", HOURLY).limited());
    try (Jedis redis = at.client()) {
      redis.select(database);
      assertTrue(redis.exists("{key}"));
      List<String> clients = redis.clientList().lines().filter(line -> line.contains(" name=shop ") && line.contains(" user=app ")).toList();
      assertFalse(clients.isEmpty(), redis::clientList);
    }
  }

  /** A server. */
  @Configuration(proxyBeanMethods = false)
  static class Alone {
    @Bean
    LettuceConnectionFactory factory(Environment environment) {
      RedisStandaloneConfiguration alone = new RedisStandaloneConfiguration("127.0.0.1", environment.getProperty("at", int.class));
      alone.setDatabase(3);
      return new LettuceConnectionFactory(alone, lettuce());
    }
  }

  @Test
  void aServerWithACredentialsProvider() {
    try (Server server = Server.start()) {
      user(server);
      try (Application application = start(Alone.class, "at=" + server.port)) {
        limits(application, server, 3);
      }
    }
  }

  /** A Unix socket. */
  @Configuration(proxyBeanMethods = false)
  static class Socket {
    @Bean
    LettuceConnectionFactory factory(Environment environment) {
      RedisSocketConfiguration socket = new RedisSocketConfiguration(environment.getProperty("at"));
      socket.setDatabase(3);
      return new LettuceConnectionFactory(socket, lettuce());
    }
  }

  @Test
  void aUnixSocket(@TempDir Path folder) {
    Path socket = folder.resolve("s");
    try (Server server = Server.start("--unixsocket", socket.toString())) {
      user(server);
      try (Application application = start(Socket.class, "at=" + socket)) {
        limits(application, server, 3);
      }
    }
  }

  /** A master and its replicas, by their addresses. */
  @Configuration(proxyBeanMethods = false)
  static class MasterAndReplicas {
    @Bean
    LettuceConnectionFactory factory(Environment environment) {
      String[] ports = environment.getProperty("at", String[].class);
      RedisStaticMasterReplicaConfiguration several = new RedisStaticMasterReplicaConfiguration("127.0.0.1", Integer.parseInt(ports[0]));
      Arrays.stream(ports).skip(1).forEach(port -> several.addNode("127.0.0.1", Integer.parseInt(port)));
      several.setDatabase(3);
      return new LettuceConnectionFactory(several, lettuce());
    }
  }

  @Test
  void aStaticMasterWhoseReplicaComesFirstAndThatChanges() {
    try (Server first = Server.start("--repl-diskless-sync-delay", "0");
        Server second = Server.start("--replicaof", "127.0.0.1", String.valueOf(first.port))) {
      user(first, second);
      try (Application application = start(MasterAndReplicas.class, "at=" + second.port + "," + first.port);
          Jedis master = first.client();
          Jedis replica = second.client()) {
        limits(application, first, 3);
        replica.select(3);
        Server.await("the replica has the key", () -> replica.exists("{key}"));
        replica.replicaofNoOne();
        master.replicaof("127.0.0.1", second.port);
        Limiter limiter = application.bean(Limiter.class);
        Server.await("the new master decides", () -> decides(limiter));
        assertTrue(replica.exists("other"));
        second.kill();
        Server.await("there is no master", () -> !decides(limiter));
        String error = assertThrows(OutageException.class, () -> limiter.limit("other", HOURLY)).getMessage();
        assertTrue(error.contains("none of the 2 servers says that it is the master") || error.contains("left alone"), error);
      }
    }
  }

  private static boolean decides(Limiter limiter) {
    try {
      limiter.limit("other", HOURLY);
      return true;
    } catch (OutageException e) {
      return false;
    }
  }

  @Test
  void aStaticMasterAlone() {
    try (Server server = Server.start()) {
      user(server);
      try (Application application = start(MasterAndReplicas.class, "at=" + server.port)) {
        limits(application, server, 3);
      }
    }
  }

  /** A Sentinel that asks for a password of its own. */
  @Configuration(proxyBeanMethods = false)
  static class Sentinel {
    private static RedisSentinelConfiguration sentinel(Environment environment) {
      RedisSentinelConfiguration sentinel =
          new RedisSentinelConfiguration().master("mymaster").sentinel("127.0.0.1", environment.getProperty("at", int.class));
      sentinel.setDatabase(3);
      return sentinel;
    }

    @Bean
    LettuceConnectionFactory factory(Environment environment) {
      return new LettuceConnectionFactory(sentinel(environment), lettuce());
    }
  }

  @Test
  void aSentinelAndItsDatabase() {
    try (Watched watched = new Watched()) {
      user(watched.master);
      watched.sentinel.run("ACL", "SETUSER", "watcher", "on", ">seen", "~*", "&*", "+@all");
      try (Application application = start(Sentinel.class, "at=" + watched.sentinel.port)) {
        limits(application, watched.master, 3);
      }
    }
  }

  /** A cluster. */
  @Configuration(proxyBeanMethods = false)
  static class Clustered {
    @Bean
    LettuceConnectionFactory factory(Environment environment) {
      return new LettuceConnectionFactory(cluster(environment), lettuce());
    }

    private static RedisClusterConfiguration cluster(Environment environment) {
      return new RedisClusterConfiguration(List.of("127.0.0.1:" + environment.getProperty("at")));
    }
  }

  /** As {@link Clustered}, by Jedis. */
  @Configuration(proxyBeanMethods = false)
  static class ClusteredByJedis {
    @Bean
    JedisConnectionFactory factory(Environment environment) {
      return new JedisConnectionFactory(Clustered.cluster(environment), jedis());
    }
  }

  @Test
  void aClusterWithACredentialsProvider() {
    for (Class<?> beans : List.of(Clustered.class, ClusteredByJedis.class)) {
      try (Cluster cluster = new Cluster()) {
        user(cluster.nodes.toArray(Server[]::new));
        try (Application application = start(beans, "at=" + cluster.nodes.get(0).port)) {
          limits(application, cluster.owner("key"), 0);
        }
      }
    }
  }

  /** A server, by Jedis. */
  @Configuration(proxyBeanMethods = false)
  static class AloneByJedis {
    @Bean
    JedisConnectionFactory factory(Environment environment) {
      RedisStandaloneConfiguration alone = new RedisStandaloneConfiguration("127.0.0.1", environment.getProperty("at", int.class));
      alone.setDatabase(3);
      return new JedisConnectionFactory(alone, jedis());
    }
  }

  @Test
  void jedisWithCredentialsOfACustomizer() {
    try (Server server = Server.start()) {
      user(server);
      try (Application application = start(AloneByJedis.class, "at=" + server.port)) {
        limits(application, server, 3);
      }
    }
  }

  /** A Sentinel, by Jedis, whose customizer gives its credentials to Sentinels, too. */
  @Configuration(proxyBeanMethods = false)
  static class SentinelByJedis {
    @Bean
    JedisConnectionFactory factory(Environment environment) {
      return new JedisConnectionFactory(Sentinel.sentinel(environment), jedis());
    }
  }

  @Test
  void jedisWithASentinelAndItsDatabase() {
    try (Watched watched = new Watched()) {
      user(watched.master, watched.sentinel);
      try (Application application = start(SentinelByJedis.class, "at=" + watched.sentinel.port)) {
        limits(application, watched.master, 3);
      }
    }
  }

  /** Two factories. */
  @Configuration(proxyBeanMethods = false)
  static class Two {
    @Bean
    LettuceConnectionFactory one() {
      return new LettuceConnectionFactory("127.0.0.1", 1);
    }

    @Bean
    LettuceConnectionFactory two() {
      return new LettuceConnectionFactory("127.0.0.1", 2);
    }
  }

  /** Two factories, of which Jedis has the one that others get. */
  @Configuration(proxyBeanMethods = false)
  static class TwoWithAPrimary {
    @Bean
    LettuceConnectionFactory one() {
      return new LettuceConnectionFactory("127.0.0.1", 1);
    }

    @Bean
    @Primary
    JedisConnectionFactory two(Environment environment) {
      return new AloneByJedis().factory(environment);
    }
  }

  @Test
  void oneOfSeveralFactoriesIsTakenOnlyIfItIsPrimary() {
    try (Server server = Server.start()) {
      user(server);
      try (Application application = start(TwoWithAPrimary.class, "at=" + server.port)) {
        limits(application, server, 3);
      }
    }
    List<String> messages = new ArrayList<>();
    for (Throwable at = assertThrows(RuntimeException.class, () -> start(Two.class)); at != null; at = at.getCause()) {
      messages.add(at.getMessage());
    }
    String last = messages.get(messages.size() - 1);
    assertTrue(last.contains("more than one connection factory") && last.contains("one, two") && last.contains("@Primary"), last);
  }
}
