package io.github.redisthrottle.jedis;

import io.github.redisthrottle.connection.Pulse;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.LongPredicate;
import org.jspecify.annotations.Nullable;
import redis.clients.jedis.Connection;

/**
 * Where a caller waits on the server. While it is told to leave the lock is held, so that the connection is not for
 * others yet: a CLIENT UNBLOCK that is late would hit them.
 */
final class Place {
  private static final long PAUSE_MS = 20;
  private static final int TIMES = 100;

  private final Connection connection;
  private final @Nullable Long id;
  private final Pulse.@Nullable Place where;
  private final ReentrantLock lock = new ReentrantLock();
  private final Condition ends = lock.newCondition();
  private boolean ended;

  /** {@code id} is null where the server does not tell. */
  Place(Connection connection, @Nullable Long id) {
    this.connection = connection;
    this.id = id;
    this.where = Peer.of(connection);
  }

  Pulse.@Nullable Place where() {
    return where;
  }

  boolean isEnded() {
    lock.lock();
    try {
      return ended;
    } finally {
      lock.unlock();
    }
  }

  /** Says that the server has answered. */
  void end() {
    lock.lock();
    try {
      ended = true;
      ends.signalAll();
    } finally {
      lock.unlock();
    }
  }

  /**
   * Has the server answer, again and again: the first time may overtake the command. Otherwise the connection is
   * closed.
   */
  void leave(LongPredicate unblock) {
    lock.lock();
    try {
      for (int times = 0; times < TIMES && !ended && id != null && unblock.test(id); times++) {
        var unused = ends.await(PAUSE_MS, TimeUnit.MILLISECONDS);
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    } finally {
      if (!ended) {
        connection.setBroken();
        connection.disconnect();
      }
      lock.unlock();
    }
  }
}
