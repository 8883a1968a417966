package io.github.redisthrottle;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redisthrottle.jedis.JedisConnection;
import io.github.redisthrottle.testing.Server;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.providers.PooledConnectionProvider;

/** Calls over Jedis in the threads of an executor. */
class JedisExecutorTest {
  private static final Limit QUOTA = Limit.fixed(1000, Duration.ofDays(1));

  private static PooledConnectionProvider provider(Server server) {
    return new PooledConnectionProvider(new HostAndPort("127.0.0.1", server.port));
  }

  @Test
  void oneThatTakesNoMoreIsAnOverload() {
    AtomicBoolean isFull = new AtomicBoolean();
    try (Server server = Server.start();
        PooledConnectionProvider provider = provider(server);
        Limiter limiter = Limiter.over(JedisConnection.over(provider, work -> {
          if (isFull.get()) {
            throw new RejectedExecutionException("full");
          }
          work.run();
        }))) {
      assertEquals(999, limiter.limit("k", QUOTA).remaining());
      Lease lease = limiter.lease("slots", Slots.of(1, Duration.ofMinutes(1)));
      isFull.set(true);
      CompletableFuture<Result> refused = limiter.async().limit("k", QUOTA).toCompletableFuture();
      assertInstanceOf(OverloadException.class, assertThrows(CompletionException.class, refused::join).getCause());
      assertThrows(OverloadException.class, () -> limiter.limit("k", QUOTA));
      lease.release(); // in the background
      isFull.set(false);
      assertEquals(998, limiter.limit("k", QUOTA).remaining());
      Server.await("the slot is free again", () -> takes(limiter));
    }
  }

  private static boolean takes(Limiter limiter) {
    try {
      limiter.lease("slots", Slots.of(1, Duration.ofMinutes(1))).release();
      return true;
    } catch (LimitedException e) {
      return false;
    }
  }

  @Test
  void aCallWhoseCallerHasLeftIsNotSent() {
    List<Runnable> queue = new ArrayList<>();
    try (Server server = Server.start();
        PooledConnectionProvider provider = provider(server);
        Limiter limiter = Limiter.over(JedisConnection.over(provider, queue::add))) {
      CompletableFuture<Result> left = limiter.async().limit("k", QUOTA).toCompletableFuture();
      CompletableFuture<Result> stays = limiter.async().limit("k", QUOTA).toCompletableFuture();
      assertTrue(left.cancel(true));
      queue.forEach(Runnable::run);
      assertEquals(999, stays.join().remaining());
    }
  }

  /** Such as one of the application, which meets something that it does not expect. */
  @Test
  void aLeaseOutlivesADeciderThatThrows() {
    AtomicBoolean threw = new AtomicBoolean();
    try (Server server = Server.start();
        PooledConnectionProvider provider = provider(server);
        Remote remote = Remote.over(JedisConnection.over(provider));
        Limiter limiter = Limiter.over((Decider) call -> {
          if (call.verb() == Call.Verb.RENEW && threw.compareAndSet(false, true)) {
            throw new IllegalStateException("not now");
          }
          return remote.decide(call);
        })) {
      Lease lease = limiter.lease("slots", Slots.of(1, Duration.ofMinutes(1)));
      Server.await("it is renewed", () -> server.ttlMs("slots") > 30_000);
      assertTrue(threw.get());
      lease.check();
    }
  }
}
