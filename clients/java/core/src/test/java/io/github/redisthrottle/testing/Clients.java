package io.github.redisthrottle.testing;

import io.github.redisthrottle.connection.Connection;
import io.github.redisthrottle.jedis.JedisConnection;
import io.github.redisthrottle.lettuce.LettuceConnection;
import java.net.URI;

/** The clients that every test of calls runs with. */
public enum Clients {
  LETTUCE {
    @Override
    public Connection connect(int port) {
      return LettuceConnection.of("redis://127.0.0.1:" + port);
    }
  },
  JEDIS {
    @Override
    public Connection connect(int port) {
      return JedisConnection.of(URI.create("redis://127.0.0.1:" + port));
    }
  };

  public abstract Connection connect(int port);
}
