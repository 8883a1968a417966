package io.github.redisthrottle.spring;

import io.github.redisthrottle.connection.Connection;
import io.github.redisthrottle.lettuce.LettuceConnection;
import io.lettuce.core.AbstractRedisClient;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.StaticCredentialsProvider;
import io.lettuce.core.cluster.RedisClusterClient;
import java.lang.reflect.Field;
import java.time.Duration;
import java.util.List;
import java.util.Objects;
import org.springframework.data.redis.connection.RedisClusterConfiguration;
import org.springframework.data.redis.connection.RedisConfiguration;
import org.springframework.data.redis.connection.RedisNode;
import org.springframework.data.redis.connection.RedisPassword;
import org.springframework.data.redis.connection.RedisSentinelConfiguration;
import org.springframework.data.redis.connection.RedisSocketConfiguration;
import org.springframework.data.redis.connection.RedisStandaloneConfiguration;
import org.springframework.data.redis.connection.RedisStaticMasterReplicaConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceClientConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.data.redis.connection.lettuce.LettuceConverters;
import org.springframework.util.StringUtils;

/**
 * Connects to where a LettuceConnectionFactory of Spring Data Redis does, with its client and all of its configuration.
 */
final class LettuceOfSpring {
  private final LettuceConnectionFactory factory;
  private final LettuceClientConfiguration client;
  private final Duration timeout;

  private LettuceOfSpring(LettuceConnectionFactory factory, Duration timeout) {
    this.factory = factory;
    this.client = factory.getClientConfiguration();
    this.timeout = timeout;
  }

  static boolean isFactory(Object factory) {
    return factory instanceof LettuceConnectionFactory;
  }

  static Connection connection(Object lettuceConnectionFactory, Duration timeout) {
    LettuceConnectionFactory factory = (LettuceConnectionFactory) lettuceConnectionFactory;
    if (!factory.isRunning()) {
      factory.start();
    }
    return new LettuceOfSpring(factory, timeout).connection(configuration(factory));
  }

  /**
   * Returns what the factory was made with. It has no method that tells of a static master and its replicas: those that
   * it has would say localhost then.
   */
  private static RedisConfiguration configuration(LettuceConnectionFactory factory) {
    try {
      Field field = LettuceConnectionFactory.class.getDeclaredField("configuration");
      field.setAccessible(true);
      return (RedisConfiguration) field.get(factory);
    } catch (ReflectiveOperationException | RuntimeException e) {
      return told(factory);
    }
  }

  private static RedisConfiguration told(LettuceConnectionFactory factory) {
    RedisStandaloneConfiguration alone = factory.getStandaloneConfiguration();
    boolean isDefault = alone.getHostName().equals(new RedisStandaloneConfiguration().getHostName());
    RedisConfiguration told =
        factory.getSentinelConfiguration() != null
            ? factory.getSentinelConfiguration()
            : factory.getClusterConfiguration() != null ? factory.getClusterConfiguration() : factory.getSocketConfiguration();
    if (told == null && isDefault) {
      throw unknown("this version of Spring Data Redis does not let a LettuceConnectionFactory be read");
    }
    return told == null ? alone : told;
  }

  private static RuntimeException unknown(String reason) {
    return Settings.wrong("redis-throttle.url", null, "it is missing, such as redis://127.0.0.1:6379, and " + reason);
  }

  private Connection connection(RedisConfiguration configuration) {
    if (configuration instanceof RedisStaticMasterReplicaConfiguration several) {
      List<RedisStandaloneConfiguration> nodes = several.getNodes();
      List<Connection> servers =
          nodes.stream().map(node -> over(alone(several, node.getHostName(), node.getPort()))).toList();
      return servers.size() == 1 ? servers.get(0) : new StaticMaster(servers);
    }
    if (configuration instanceof RedisClusterConfiguration cluster) {
      RedisNode first = cluster.getClusterNodes().iterator().next();
      return over(alone(cluster, Objects.requireNonNull(first.getHost()), Objects.requireNonNull(first.getPort())));
    }
    if (configuration instanceof RedisSentinelConfiguration sentinel) {
      return over(sentinel(sentinel));
    }
    if (configuration instanceof RedisSocketConfiguration socket) {
      return over(settled(RedisURI.Builder.socket(socket.getSocket()).build(), socket));
    }
    if (configuration instanceof RedisStandaloneConfiguration alone) {
      return over(alone(alone, alone.getHostName(), alone.getPort()));
    }
    throw unknown("the configuration of the LettuceConnectionFactory is a " + configuration.getClass().getName() + ", which is none of Spring's");
  }

  private Connection over(RedisURI uri) {
    AbstractRedisClient own = factory.getRequiredNativeClient();
    return own instanceof RedisClusterClient cluster
        ? LettuceConnection.over(cluster, uri, timeout)
        : LettuceConnection.over((RedisClient) own, uri, timeout);
  }

  private RedisURI alone(RedisConfiguration configuration, String host, int port) {
    return settled(RedisURI.Builder.redis(host, port).build(), configuration);
  }

  private RedisURI sentinel(RedisSentinelConfiguration configuration) {
    RedisURI uri = LettuceConverters.sentinelConfigurationToRedisURI(configuration);
    uri.getSentinels().forEach(this::secure);
    client
        .getRedisCredentialsProviderFactory()
        .map(credentials -> credentials.createSentinelCredentialsProvider(configuration))
        .ifPresent(provider -> uri.getSentinels().forEach(one -> one.setCredentialsProvider(provider)));
    return settled(uri, configuration);
  }

  /** Sets what a factory sets for every server: credentials, the database, the name of the client and TLS. */
  private RedisURI settled(RedisURI uri, RedisConfiguration configuration) {
    uri.setDatabase(factory.getDatabase());
    secure(uri);
    String user = RedisConfiguration.getUsernameOrElse(configuration, () -> null);
    RedisPassword password = RedisConfiguration.getPasswordOrElse(configuration, RedisPassword::none);
    password.toOptional().ifPresent(secret -> uri.setCredentialsProvider(new StaticCredentialsProvider(StringUtils.hasText(user) ? user : null, secret)));
    client
        .getRedisCredentialsProviderFactory()
        .map(credentials -> credentials.createCredentialsProvider(configuration))
        .ifPresent(uri::setCredentialsProvider);
    return uri;
  }

  private void secure(RedisURI uri) {
    client.getClientName().ifPresent(uri::setClientName);
    uri.setSsl(client.isUseSsl());
    uri.setVerifyPeer(client.getVerifyMode());
    uri.setStartTls(client.isStartTls());
  }
}
