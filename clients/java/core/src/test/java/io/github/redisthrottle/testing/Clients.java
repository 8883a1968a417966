package io.github.redisthrottle.testing;

import io.github.redisthrottle.connection.Connection;
import io.github.redisthrottle.jedis.JedisConnection;
import io.github.redisthrottle.lettuce.LettuceConnection;
import io.lettuce.core.RedisURI;
import java.net.URI;
import java.time.Duration;

/** The clients that every test of calls runs with. */
public enum Clients {
  LETTUCE {
    @Override
    public Connection connect(int port) {
      return LettuceConnection.of("redis://127.0.0.1:" + port);
    }

    @Override
    public Connection patient(int port) {
      return LettuceConnection.of(RedisURI.create("redis://127.0.0.1:" + port), Duration.ofSeconds(30));
    }
  },
  JEDIS {
    @Override
    public Connection connect(int port) {
      return JedisConnection.of(URI.create("redis://127.0.0.1:" + port));
    }

    @Override
    public Connection patient(int port) {
      return JedisConnection.of(URI.create("redis://127.0.0.1:" + port), Duration.ofSeconds(30));
    }
  };

  public abstract Connection connect(int port);

  /** Connects with a timeout for a machine that is busy. */
  public abstract Connection patient(int port);
}
