package io.github.redisthrottle.jedis;

import io.github.redisthrottle.CallInterruptedException;
import io.github.redisthrottle.OverloadException;
import java.time.Duration;
import java.util.NoSuchElementException;
import org.jspecify.annotations.Nullable;
import redis.clients.jedis.Connection;
import redis.clients.jedis.exceptions.JedisException;
import redis.clients.jedis.util.Pool;

/** A connection of a pool, which closing this gives back, or one beside it, which is closed. */
record Taken(Connection connection, @Nullable Pool<Connection> pool, boolean isOwn) implements AutoCloseable {
  Taken(Connection connection, @Nullable Pool<Connection> pool) {
    this(connection, pool, false);
  }

  /** Opens a connection as those of a pool, beside them: whoever waits for long keeps none from others. */
  static Taken beside(Pool<Connection> pool) {
    try {
      return new Taken(pool.getFactory().makeObject().getObject(), pool, true);
    } catch (RuntimeException e) {
      throw e;
    } catch (Exception e) {
      throw new JedisException(e);
    }
  }

  /** Waits for a connection for so long; by itself a pool may wait as long as it takes. */
  static Taken from(Pool<Connection> pool, Duration room) {
    try {
      return new Taken(pool.borrowObject(room), pool);
    } catch (NoSuchElementException e) {
      if (e.getCause() instanceof JedisException cause) {
        throw cause;
      }
      throw new OverloadException(
          "all " + pool.getMaxTotal() + " connections are in use, and none became free within " + room.toMillis() + " ms", e);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new CallInterruptedException("interrupted while waiting for a connection", e);
    } catch (RuntimeException e) {
      throw e;
    } catch (Exception e) {
      throw new JedisException(e);
    }
  }

  /** Closes the connections that nobody uses: after one has failed, so may have the others. */
  void failed() {
    if (pool != null) {
      pool.clear();
    }
  }

  @Override
  public void close() {
    if (isOwn) {
      connection.disconnect();
    } else if (pool == null) { // its provider has told it where it belongs
      connection.close();
    } else if (connection.isBroken()) {
      pool.returnBrokenResource(connection);
    } else {
      pool.returnResource(connection);
    }
  }
}
