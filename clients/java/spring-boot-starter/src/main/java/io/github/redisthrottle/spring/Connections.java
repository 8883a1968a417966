package io.github.redisthrottle.spring;

import io.github.redisthrottle.connection.Connection;
import io.github.redisthrottle.jedis.JedisConnection;
import io.github.redisthrottle.lettuce.LettuceConnection;
import io.lettuce.core.AbstractRedisClient;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.cluster.RedisClusterClient;
import java.net.URI;
import java.time.Duration;
import org.springframework.beans.factory.ListableBeanFactory;
import org.springframework.data.redis.connection.RedisClusterConfiguration;
import org.springframework.data.redis.connection.RedisNode;
import org.springframework.data.redis.connection.RedisPassword;
import org.springframework.data.redis.connection.RedisSocketConfiguration;
import org.springframework.data.redis.connection.RedisStandaloneConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.data.redis.connection.lettuce.LettuceConverters;
import org.springframework.util.ClassUtils;

/** Connects to where the properties say, or to where Spring Data Redis does. */
final class Connections {
  private Connections() {}

  static Connection of(RateLimitProperties properties, ListableBeanFactory beans) {
    if (properties.timeout().toMillis() <= 0) {
      throw Settings.wrong("redis-throttle.timeout", properties.timeout(), "it must be positive, such as 200ms");
    }
    boolean lettuce = isPresent("io.lettuce.core.RedisClient");
    if (properties.url() != null) {
      try {
        return lettuce ? Lettuce.at(properties.url(), properties.timeout()) : Jedis.at(properties.url(), properties.timeout());
      } catch (IllegalArgumentException e) { // without its text, which may have the password
        throw Settings.wrong("redis-throttle.url", "(the URL)", "it is none of Redis, such as redis://127.0.0.1:6379 or rediss://user:password@host:6379");
      }
    }
    if (lettuce && isPresent("org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory")) {
      Connection found = SpringData.find(beans, properties.timeout());
      if (found != null) {
        return found;
      }
    }
    if (isPresent("redis.clients.jedis.Jedis") && isPresent("org.springframework.data.redis.connection.jedis.JedisConnectionFactory")) {
      Connection found = JedisOfSpring.find(beans, properties.timeout());
      if (found != null) {
        return found;
      }
    }
    throw Settings.wrong(
        "redis-throttle.url",
        null,
        "it is missing, such as redis://127.0.0.1:6379, and there is no LettuceConnectionFactory or JedisConnectionFactory to take it from, or more than one");
  }

  /** Returns whether calls block their thread. */
  static boolean blocks(Connection connection) {
    return connection.getClass().getName().startsWith("io.github.redisthrottle.jedis.") || connection.getClass().getSimpleName().equals("JedisOfSpring");
  }

  private static boolean isPresent(String name) {
    return ClassUtils.isPresent(name, Connections.class.getClassLoader());
  }

  // Each of these is loaded only where its client is there.

  private static final class Lettuce {
    static Connection at(String url, Duration timeout) {
      return LettuceConnection.of(RedisURI.create(url), timeout);
    }
  }

  private static final class Jedis {
    static Connection at(String url, Duration timeout) {
      return JedisConnection.of(URI.create(url), timeout);
    }
  }

  private static final class SpringData {
    static Connection find(ListableBeanFactory beans, Duration timeout) {
      LettuceConnectionFactory factory = beans.getBeanProvider(LettuceConnectionFactory.class).getIfUnique();
      if (factory == null) {
        return null;
      }
      if (!factory.isRunning()) {
        factory.start();
      }
      AbstractRedisClient client = factory.getRequiredNativeClient();
      if (client instanceof RedisClusterClient cluster) {
        return LettuceConnection.over(cluster, uri(factory), timeout);
      }
      return LettuceConnection.over((RedisClient) client, uri(factory), timeout);
    }

    private static RedisURI uri(LettuceConnectionFactory factory) {
      RedisURI uri;
      RedisSocketConfiguration socket = factory.getSocketConfiguration();
      if (factory.getSentinelConfiguration() != null) {
        uri = LettuceConverters.sentinelConfigurationToRedisURI(factory.getSentinelConfiguration());
      } else if (factory.getClusterConfiguration() != null) {
        RedisClusterConfiguration cluster = factory.getClusterConfiguration();
        RedisNode first = cluster.getClusterNodes().iterator().next();
        uri = signedIn(RedisURI.Builder.redis(first.getHost(), first.getPort()), cluster.getUsername(), cluster.getPassword());
      } else if (socket != null) {
        RedisURI.Builder builder = RedisURI.Builder.socket(socket.getSocket()).withDatabase(socket.getDatabase());
        uri = signedIn(builder, socket.getUsername(), socket.getPassword());
      } else {
        RedisStandaloneConfiguration alone = factory.getStandaloneConfiguration();
        RedisURI.Builder builder = RedisURI.Builder.redis(alone.getHostName(), alone.getPort()).withDatabase(alone.getDatabase());
        uri = signedIn(builder, alone.getUsername(), alone.getPassword());
      }
      uri.setSsl(factory.getClientConfiguration().isUseSsl());
      uri.setVerifyPeer(factory.getClientConfiguration().getVerifyMode());
      uri.setStartTls(factory.getClientConfiguration().isStartTls());
      return uri;
    }

    private static RedisURI signedIn(RedisURI.Builder builder, String user, RedisPassword password) {
      return password
          .map(secret -> user == null || user.isEmpty() ? builder.withPassword(secret) : builder.withAuthentication(user, secret))
          .orElse(builder)
          .build();
    }
  }
}
