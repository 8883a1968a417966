package io.github.redisthrottle;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.parallel.ExecutionMode.CONCURRENT;

import io.github.redisthrottle.testing.Clients;
import io.github.redisthrottle.testing.Server;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import redis.clients.jedis.Jedis;

/** What a service sees of a server that stands still, that dies, and that comes back. */
class OutageTest {
  private static final Limit QUOTA = Limit.fixed(1_000_000, Duration.ofDays(1));

  @ParameterizedTest
  @Execution(CONCURRENT)
  @EnumSource
  void aServerThatStandsStillIsLeftAloneAndComesBack(Clients client) {
    try (Server server = Server.start();
        Limiter limiter = Limiter.over(client.connect(server.port))) {
      Server.await("the first call is decided", () -> decided(limiter));
      server.pause();
      Server.await("the server is left alone", () -> !sent(limiter));
      server.resume();
      Server.await("the server is back", () -> decided(limiter));
    }
  }

  private static boolean decided(Limiter limiter) {
    try {
      return limiter.limit("k", QUOTA).allowed();
    } catch (OutageException | OverloadException e) {
      return false;
    }
  }

  private static boolean sent(Limiter limiter) {
    return assertThrows(OutageException.class, () -> limiter.limit("k", QUOTA)).sent();
  }

  /** Over its memory it decides nothing until it has room. */
  @ParameterizedTest
  @Execution(CONCURRENT)
  @EnumSource
  void aServerThatIsFullIsAnOutageUntilItHasRoom(Clients client) {
    try (Server server = Server.start();
        Limiter limiter = Limiter.over(client.patient(server.port))) {
      assertTrue(limiter.limit("before", QUOTA).allowed());
      server.run("CONFIG", "SET", "maxmemory", "1");
      OutageException full = assertThrows(OutageException.class, () -> limiter.limit("k", QUOTA));
      assertTrue(full.getMessage().contains("OOM"), full::getMessage);
      server.run("CONFIG", "SET", "maxmemory", "0");
      assertEquals(999_999, limiter.limit("k", QUOTA).remaining());
    }
  }

  @ParameterizedTest
  @Execution(CONCURRENT)
  @EnumSource
  void aPolicyDecidesUntilTheServerIsBack(Clients client) {
    try (Server server = Server.start();
        Limiter open = Limiter.over(Guard.of(Remote.over(client.patient(server.port)), Guard.Policy.OPEN));
        Limiter closed = Limiter.over(Guard.of(Remote.over(client.patient(server.port)), Guard.Policy.CLOSED))) {
      server.kill();
      Result allowed = open.limit("k", QUOTA);
      assertTrue(allowed.allowed());
      assertEquals(Result.By.POLICY, allowed.by());
      Result denied = closed.limit("k", QUOTA);
      assertTrue(denied.limited() && denied.retryAfter().orElseThrow().toMillis() > 0);
      assertThrows(OutageException.class, () -> open.refund("k", 1, QUOTA));
      open.lease("l", Slots.of(1, Duration.ofMinutes(1))).close();
      server.launch();
      Server.await("the server decides again", () -> closed.limit("k", QUOTA).by() == Result.By.SERVER);
    }
  }

  @ParameterizedTest
  @Execution(CONCURRENT)
  @EnumSource
  void aWaitOnAServerThatStandsStillIsGivenUp(Clients client) {
    Limit hourly = Limit.window(1, Duration.ofHours(1));
    try (Server server = Server.start();
        Limiter limiter = Limiter.over(Remote.over(client.connect(server.port), Commands.AUTO, Duration.ofMillis(300)))) {
      limiter.limit("w", hourly);
      CompletableFuture<Result.Allowed> waiting = limiter.async().waitFor("w", hourly).toCompletableFuture();
      try (Jedis jedis = server.client()) {
        Server.await("the caller waits", () -> jedis.info("clients").contains("blocked_clients:1"));
      }
      server.pause();
      Throwable error = waiting.handle((value, failed) -> failed).orTimeout(30, TimeUnit.SECONDS).join();
      assertTrue(error instanceof OutageException, () -> "ended with " + error);
    }
  }

  @ParameterizedTest
  @Execution(CONCURRENT)
  @EnumSource
  void aReleaseInAnOutageIsRepeatedUntilTheServerIsBack(Clients client) {
    try (Server server = Server.start();
        Limiter limiter = Limiter.over(client.connect(server.port))) {
      Lease lease = limiter.lease("l", Slots.of(1, Duration.ofMinutes(10)));
      Server.await("the lease lasts for its ttl", () -> server.ttlMs("l") > 60_000);
      server.pause();
      lease.release();
      server.resume();
      Server.await("the slot is free", () -> server.ttlMs("l") < 0);
    }
  }

  /** A call that is sent twice is charged twice. Each of these is sent once, so no more was charged than was sent. */
  @ParameterizedTest
  @EnumSource
  void noCallIsChargedTwiceWhenConnectionsAreLost(Clients client) {
    try (Server server = Server.start();
        Limiter limiter = Limiter.over(Remote.over(client.patient(server.port)))) {
      int sent = 0;
      for (int round = 0; round < 5; round++) {
        List<CompletableFuture<?>> calls = new ArrayList<>();
        for (int i = 0; i < 50; i++, sent++) {
          calls.add(limiter.async().limit("k", QUOTA).toCompletableFuture().handle((value, error) -> null));
        }
        try (Jedis jedis = server.client()) {
          jedis.sendCommand(() -> "CLIENT".getBytes(java.nio.charset.StandardCharsets.UTF_8), "KILL", "TYPE", "normal");
        }
        calls.forEach(CompletableFuture::join);
      }
      Server.await("it is connected again", () -> limiter.async().reset("other").handle((value, error) -> error == null).toCompletableFuture().join());
      long charged = 1_000_000 - limiter.peek("k", QUOTA).remaining();
      assertTrue(charged <= sent, charged + " were charged, " + sent + " were sent");
    }
  }

  @ParameterizedTest
  @EnumSource
  void tenThousandCallersTakeNoMoreThanThereIs(Clients client) {
    Limit quota = Limit.fixed(3000, Duration.ofDays(1));
    try (Server server = Server.start();
        Limiter limiter = Limiter.over(Remote.over(client.patient(server.port)))) {
      List<CompletableFuture<Boolean>> calls = new ArrayList<>();
      for (int i = 0; i < 10_000; i++) {
        calls.add(limiter.async().limit("k", quota).handle((result, error) -> error == null && result.allowed()).toCompletableFuture());
      }
      long allowed = calls.stream().filter(CompletableFuture::join).count();
      assertTrue(allowed > 0 && allowed <= 3000, allowed + " were let through");
      try (Jedis jedis = server.client()) {
        assertTrue(jedis.info("commandstats").contains("cmdstat_cl.limit:calls=10000,"), "each is sent once");
      }
    }
  }

  @ParameterizedTest
  @EnumSource
  void manyThreadsTakeNoMoreThanThereIs(Clients client) throws InterruptedException {
    Limit quota = Limit.fixed(500, Duration.ofDays(1));
    AtomicInteger allowed = new AtomicInteger();
    AtomicInteger undecided = new AtomicInteger();
    try (Server server = Server.start();
        Limiter limiter = Limiter.over(client.patient(server.port))) {
      List<Thread> callers = new ArrayList<>();
      for (int i = 0; i < 100; i++) {
        Thread caller =
            new Thread(
                () -> {
                  for (int n = 0; n < 20; n++) {
                    try {
                      allowed.addAndGet(limiter.limit("k", quota).allowed() ? 1 : 0);
                    } catch (ThrottleException e) {
                      undecided.incrementAndGet(); // on a busy machine: it was not let through
                    }
                  }
                });
        callers.add(caller);
        caller.start();
      }
      for (Thread caller : callers) {
        caller.join();
      }
      assertTrue(allowed.get() > 0 && allowed.get() <= 500, allowed + " were let through, " + undecided + " were not decided");
    }
  }
}
