package io.github.redisthrottle.spring;

import io.github.redisthrottle.connection.Command;
import io.github.redisthrottle.connection.Connection;
import io.github.redisthrottle.jedis.JedisConnection;
import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.CompletionStage;
import java.util.stream.Collectors;
import java.util.stream.StreamSupport;
import org.jspecify.annotations.Nullable;
import org.springframework.data.redis.connection.RedisClusterConfiguration;
import org.springframework.data.redis.connection.RedisNode;
import org.springframework.data.redis.connection.RedisPassword;
import org.springframework.data.redis.connection.RedisSentinelConfiguration;
import org.springframework.data.redis.connection.RedisStandaloneConfiguration;
import org.springframework.data.redis.connection.jedis.JedisClientConfiguration;
import org.springframework.data.redis.connection.jedis.JedisConnectionFactory;
import redis.clients.jedis.ConnectionPoolConfig;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisClientConfig;
import redis.clients.jedis.providers.ClusterConnectionProvider;
import redis.clients.jedis.providers.ConnectionProvider;
import redis.clients.jedis.providers.PooledConnectionProvider;
import redis.clients.jedis.providers.SentineledConnectionProvider;

/**
 * Calls over Jedis to where a JedisConnectionFactory of Spring Data Redis says, in connections of its own: those of the
 * factory are not for others.
 */
record JedisOfSpring(JedisConnection next, ConnectionProvider provider) implements Connection {
  private static final Duration ROOM = Duration.ofSeconds(1);

  static boolean isFactory(Object factory) {
    return factory instanceof JedisConnectionFactory;
  }

  static Connection connection(Object jedisConnectionFactory, Duration timeout) {
    JedisConnectionFactory factory = (JedisConnectionFactory) jedisConnectionFactory;
    JedisClientConfiguration client = factory.getClientConfiguration();
    ConnectionPoolConfig pool = new ConnectionPoolConfig();
    int most = client.getPoolConfig().map(one -> one.getMaxTotal()).orElse(16);
    pool.setMaxTotal(most);
    pool.setMaxIdle(most);
    pool.setMaxWait(ROOM);
    RedisSentinelConfiguration sentinel = factory.getSentinelConfiguration();
    if (sentinel != null) {
      JedisClientConfig master = config(client, timeout, sentinel.getUsername(), sentinel.getPassword(), sentinel.getDatabase());
      JedisClientConfig watcher = config(client, timeout, sentinel.getSentinelUsername(), sentinel.getSentinelPassword(), 0);
      return of(new SentineledConnectionProvider(Objects.requireNonNull(sentinel.getMaster()).getName(), master, pool,
          addresses(sentinel.getSentinels()), watcher));
    }
    RedisClusterConfiguration cluster = factory.getClusterConfiguration();
    if (cluster != null) {
      JedisClientConfig config = config(client, timeout, cluster.getUsername(), cluster.getPassword(), 0);
      return of(new ClusterConnectionProvider(addresses(cluster.getClusterNodes()), config, pool));
    }
    RedisStandaloneConfiguration alone = Objects.requireNonNull(factory.getStandaloneConfiguration());
    JedisClientConfig config = config(client, timeout, alone.getUsername(), alone.getPassword(), alone.getDatabase());
    HostAndPort address = new HostAndPort(alone.getHostName(), alone.getPort());
    return of(new PooledConnectionProvider(address, config, pool));
  }

  private static JedisClientConfig config(JedisClientConfiguration client, Duration timeout, @Nullable String user, RedisPassword password, int database) {
    DefaultJedisClientConfig.Builder config = DefaultJedisClientConfig.builder().ssl(client.isUseSsl()).database(database);
    password.map(String::new).ifPresent(config::password);
    if (user != null && !user.isEmpty()) {
      config.user(user);
    }
    client.getClientName().ifPresent(config::clientName);
    client.getSslSocketFactory().ifPresent(config::sslSocketFactory);
    client.getSslParameters().ifPresent(config::sslParameters);
    client.getHostnameVerifier().ifPresent(config::hostnameVerifier);
    client.getCustomizer().ifPresent(customizer -> customizer.customize(config)); // such as credentials that change
    int timeoutMs = Math.toIntExact(timeout.toMillis());
    return config.connectionTimeoutMillis(timeoutMs).socketTimeoutMillis(timeoutMs).build();
  }

  private static Set<HostAndPort> addresses(Iterable<RedisNode> nodes) {
    return StreamSupport.stream(nodes.spliterator(), false)
        .map(node -> new HostAndPort(node.getHost(), Objects.requireNonNull(node.getPort())))
        .collect(Collectors.toSet());
  }

  private static JedisOfSpring of(ConnectionProvider provider) {
    return new JedisOfSpring(JedisConnection.over(provider), provider);
  }

  @Override
  public CompletionStage<Object> send(Command command) {
    return next.send(command);
  }

  @Override
  public CompletionStage<Object> sendWaiting(Command command, CompletionStage<Void> left) {
    return next.sendWaiting(command, left);
  }

  @Override
  public CompletionStage<Object> sendWaiting(Command command, CompletionStage<Void> left, Duration patience) {
    return next.sendWaiting(command, left, patience);
  }

  @Override
  public CompletionStage<Object> sendAtomically(List<Command> commands) {
    return next.sendAtomically(commands);
  }

  @Override
  public String nodeOf(String key) {
    return next.nodeOf(key);
  }

  @Override
  public void close() {
    try {
      provider.close();
    } catch (Exception e) {
      throw new IllegalStateException("closing the connections of Jedis failed", e);
    }
  }
}
