package io.github.redisthrottle.spring;

import io.github.redisthrottle.connection.Connection;
import io.github.redisthrottle.jedis.JedisConnection;
import io.github.redisthrottle.lettuce.LettuceConnection;
import io.lettuce.core.RedisURI;
import java.net.URI;
import java.time.Duration;
import org.springframework.aop.framework.AopProxyUtils;
import org.springframework.beans.factory.ListableBeanFactory;
import org.springframework.data.redis.connection.ReactiveRedisConnectionFactory;
import org.springframework.data.redis.connection.RedisConnectionFactory;
import org.springframework.util.ClassUtils;

/** Connects to where the properties say, or to where Spring Data Redis does. */
final class Connections {
  private Connections() {}

  static Connection of(RateLimitProperties properties, ListableBeanFactory beans) {
    if (properties.timeout().toMillis() <= 0) {
      throw Settings.wrong("redis-throttle.timeout", properties.timeout(), "it must be positive, such as 200ms");
    }
    if (properties.url() != null) {
      try {
        return isPresent("io.lettuce.core.RedisClient")
            ? Lettuce.at(properties.url(), properties.timeout())
            : Jedis.at(properties.url(), properties.timeout());
      } catch (IllegalArgumentException e) { // without its text, which may have the password
        throw Settings.wrong(
            "redis-throttle.url",
            "(the URL)",
            "it is none of Redis, such as redis://127.0.0.1:6379 or rediss://user:password@host:6379");
      }
    }
    if (!isPresent("org.springframework.data.redis.connection.RedisConnectionFactory")) {
      throw missing("there is no Spring Data Redis whose connection factory could say it");
    }
    return SpringData.connection(beans, properties.timeout());
  }

  private static RuntimeException missing(String reason) {
    return Settings.wrong("redis-throttle.url", null, "it is missing, such as redis://127.0.0.1:6379, and " + reason);
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
    static Connection connection(ListableBeanFactory beans, Duration timeout) {
      Object factory = AopProxyUtils.getSingletonTarget(found(beans));
      Object actual = factory == null ? found(beans) : factory;
      if (isLettuce(actual)) {
        return LettuceOfSpring.connection(actual, timeout);
      }
      if (isJedis(actual)) {
        return JedisOfSpring.connection(actual, timeout);
      }
      throw missing("the connection factory is a " + actual.getClass().getName() + ", which is of neither Lettuce nor Jedis");
    }

    private static Object found(ListableBeanFactory beans) {
      RedisConnectionFactory factory = beans.getBeanProvider(RedisConnectionFactory.class).getIfUnique();
      if (factory != null) {
        return factory;
      }
      ReactiveRedisConnectionFactory reactive = beans.getBeanProvider(ReactiveRedisConnectionFactory.class).getIfUnique();
      if (reactive != null) {
        return reactive;
      }
      String[] names = beans.getBeanNamesForType(RedisConnectionFactory.class);
      throw missing(
          names.length == 0
              ? "there is no LettuceConnectionFactory or JedisConnectionFactory to take it from"
              : "there is more than one connection factory to take it from (" + String.join(", ", names) + "): make one of them @Primary");
    }

    private static boolean isLettuce(Object factory) {
      return isPresent("io.lettuce.core.RedisClient") && LettuceOfSpring.isFactory(factory);
    }

    private static boolean isJedis(Object factory) {
      return isPresent("redis.clients.jedis.Jedis") && JedisOfSpring.isFactory(factory);
    }
  }
}
