package io.github.redisthrottle;

import static io.github.redisthrottle.Limit.fixed;
import static io.github.redisthrottle.Limit.rate;
import static io.github.redisthrottle.Limit.window;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redisthrottle.lettuce.LettuceConnection;
import io.github.redisthrottle.testing.Clients;
import io.github.redisthrottle.testing.Server;
import io.lettuce.core.ClientOptions;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.TimeoutOptions;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.regex.Pattern;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;
import redis.clients.jedis.Jedis;

class LimiterTest {
  private static final Pattern RENEWED_TWICE = Pattern.compile("cmdstat_cl\\.renew:calls=([2-9]|[0-9]{2,}),");
  private static final Duration HOUR = Duration.ofHours(1);
  private static Server server;

  @BeforeAll
  static void start() {
    server = Server.start();
  }

  @AfterAll
  static void stop() {
    server.close();
  }

  private static Limiter limiter(Clients client) {
    try (Jedis jedis = server.client()) {
      jedis.flushAll();
    }
    return Limiter.over(client.patient(server.port));
  }

  @ParameterizedTest
  @EnumSource
  void theVerbsSayWhatTheyDid(Clients client) {
    Limit quota = fixed(3, Duration.ofDays(1));
    try (Limiter limiter = limiter(client)) {
      assertEquals(1, limiter.limit("q", 2, quota).remaining());
      Result denied = limiter.limit("q", 2, quota);
      assertTrue(denied instanceof Result.Denied && denied.retryAfter().isPresent());
      assertEquals(1, limiter.refund("q", 1, quota));
      assertEquals(2, limiter.peek("q", quota).remaining());
      assertEquals(HOUR, limiter.ban("q", HOUR));
      assertTrue(limiter.limit("q", quota).banned());
      assertTrue(limiter.reset("q"));
      assertFalse(limiter.reset("q"));
      assertEquals(Optional.empty(), limiter.limit("q", 4, quota).retryAfter());
      assertThrows(IllegalArgumentException.class, () -> limiter.limit("q", -1, quota));
    }
  }

  @Test
  void aWaitOutlastsTheTimeoutThatLettuceHasForCommands() {
    Limit slow = rate(1, Duration.ofMillis(500));
    RedisClient yours = RedisClient.create();
    yours.setOptions(ClientOptions.builder().timeoutOptions(TimeoutOptions.enabled(Duration.ofMillis(50))).build());
    RedisURI uri = RedisURI.create("redis://127.0.0.1:" + server.port);
    try (Limiter limiter = Limiter.over(LettuceConnection.over(yours, uri, Duration.ofSeconds(30)))) {
      limiter.waitFor("outlasts", slow);
      Server.await("a caller waits", () -> limiter.waitFor("outlasts", slow).waited().toMillis() > 100);
    } finally {
      yours.shutdown();
    }
  }

  @ParameterizedTest
  @EnumSource
  void severalKeysAreTakenTogetherOrInTurn(Clients client) {
    Keys keys = Keys.of("{k}:a", fixed(1, HOUR)).and("{k}:b", fixed(2, HOUR));
    try (Limiter limiter = limiter(client)) {
      assertTrue(limiter.limitAll(keys).allowed());
      Result denied = limiter.limitAll(keys);
      assertEquals("{k}:a", denied.key());
      assertEquals("{k}:b", limiter.limitAny(keys).key());
      assertTrue(limiter.limitAny(keys).limited());
    }
  }

  @ParameterizedTest
  @EnumSource
  void aWaitTakesItsTurn(Clients client) {
    Limit one = window(1, Duration.ofSeconds(2));
    try (Limiter limiter = limiter(client)) {
      limiter.waitFor("w", one);
      Server.await("a caller waits", () -> limiter.waitFor("w", one).waited().toMillis() > 0);
      Limit hourly = rate(1, HOUR);
      limiter.limit("w2", hourly);
      Result late = limiter.ask(Call.waitFor("w2", hourly).maxWait(Duration.ofSeconds(1)));
      assertThrows(LimitedException.class, late::orThrow);
    }
  }

  @ParameterizedTest
  @EnumSource
  void anInterruptedWaitLeavesTheLine(Clients client) throws InterruptedException {
    Limit hourly = window(1, HOUR);
    AtomicReference<Throwable> ended = new AtomicReference<>();
    try (Limiter limiter = limiter(client);
        Jedis jedis = server.client()) {
      limiter.limit("w", hourly);
      Thread waiting =
          new Thread(
              () -> {
                try {
                  limiter.waitFor("w", hourly);
                } catch (CallInterruptedException e) {
                  ended.set(Thread.currentThread().isInterrupted() ? e : null);
                }
              });
      waiting.start();
      Server.await("the caller waits", () -> jedis.info("clients").contains("blocked_clients:1"));
      waiting.interrupt();
      waiting.join(TimeUnit.SECONDS.toMillis(30));
      assertTrue(ended.get() instanceof CallInterruptedException);
      Server.await("nobody waits", () -> jedis.info("clients").contains("blocked_clients:0"));
    }
  }

  /**
   * The refund grants the unit to the caller that waits, which leaves at that moment: it has the unit, or the key has
   * it again.
   */
  @ParameterizedTest
  @EnumSource
  void aWaitGivenUpAsItIsGrantedLosesNothing(Clients client) {
    Limit daily = fixed(1, Duration.ofDays(1));
    try (Limiter limiter = limiter(client);
        Jedis jedis = server.client()) {
      limiter.limit("w", daily);
      for (int round = 0; round < 10; round++) {
        CompletableFuture<Result.Allowed> waiting = limiter.async().waitFor("w", daily).toCompletableFuture();
        Server.await("the caller waits", () -> jedis.info("clients").contains("blocked_clients:1"));
        CompletableFuture<Long> refund = limiter.async().refund("w", 1, daily).toCompletableFuture();
        if (!waiting.cancel(true)) {
          limiter.refund("w", 1, daily);
        }
        refund.join();
        Server.await("the unit is there again", () -> limiter.limit("w", daily).allowed());
      }
    }
  }

  @ParameterizedTest
  @EnumSource
  void aLeaseIsHeldUntilItIsClosed(Clients client) {
    Slots one = Slots.of(1, Duration.ofMinutes(1));
    try (Limiter limiter = limiter(client)) {
      try (Lease lease = limiter.lease("l", one)) {
        lease.check();
        assertThrows(LimitedException.class, () -> limiter.lease("l", one));
        Server.await("the lease lasts for its ttl", () -> server.ttlMs("l") > 50_000);
        CompletableFuture<Lease> next = limiter.async().lease(Call.lease("l", one).maxWait(Duration.ofSeconds(30))).toCompletableFuture();
        lease.release();
        next.join().close();
      }
      limiter.lease("l", one).close();
    }
  }

  /** A server on which as many callers wait as may answers at once. It is a denial, and nobody asks again. */
  @ParameterizedTest
  @EnumSource
  void aCallThatAFullLineTurnsAwayIsDenied(Clients client) {
    Slots one = Slots.of(1, HOUR);
    try (Limiter limiter = limiter(client);
        Jedis jedis = server.client();
        Lease held = limiter.lease("full", one)) {
      jedis.configSet("throttle.max-waiting", "1");
      try {
        CompletableFuture<Lease> waits = limiter.async().lease(Call.lease("full", one).maxWait(HOUR)).toCompletableFuture();
        Server.await("somebody waits", () -> jedis.info("throttle").contains("throttle_leases_waiting:1\r"));
        assertThrows(LimitedException.class, () -> limiter.lease(Call.lease("full", one).maxWait(HOUR)));
        limiter.limit("window", window(1, Duration.ofDays(1)));
        Result denied = limiter.ask(Call.waitFor("window", window(1, Duration.ofDays(1))).maxWait(HOUR));
        assertTrue(denied instanceof Result.Denied && denied.retryAfter().isPresent());
        held.release();
        waits.join().close();
      } finally {
        jedis.configSet("throttle.max-waiting", "-1");
      }
    }
  }

  @ParameterizedTest
  @EnumSource
  void aLeaseIsRenewedUntilItIsLost(Clients client) {
    try (Limiter limiter = limiter(client)) {
      Lease lease = limiter.lease("l", Slots.of(1, Duration.ofSeconds(4)));
      CompletableFuture<Void> told = new CompletableFuture<>();
      lease.onLost(() -> told.complete(null), Runnable::run);
      try (Jedis jedis = server.client()) {
        jedis.configResetStat();
        Server.await("it is renewed again and again", () -> RENEWED_TWICE.matcher(jedis.info("commandstats")).find());
      }
      lease.check();
      assertTrue(limiter.reset("l"));
      told.orTimeout(30, TimeUnit.SECONDS).join();
      assertTrue(lease.isLost());
      assertThrows(LeaseLostException.class, lease::close);
    }
  }

  @ParameterizedTest
  @EnumSource
  void anAdmissionChargesWhatWasUsed(Clients client) {
    Limit tokens = fixed(5000, Duration.ofDays(1));
    Keys keys = Keys.of("{7}:t", tokens.take(1200)).and("{7}:r", Slots.of(1, Duration.ofMinutes(1)));
    try (Limiter limiter = limiter(client)) {
      try (Admission admission = limiter.admit(keys)) {
        assertEquals(3800, limiter.peek("{7}:t", tokens).remaining());
        assertThrows(LimitedException.class, () -> limiter.admit(keys));
        admission.used("{7}:t", 200);
        assertThrows(IllegalArgumentException.class, () -> admission.used("{7}:r", 200));
      }
      assertEquals(4800, limiter.peek("{7}:t", tokens).remaining());
      Admission lost = limiter.admit(keys);
      assertTrue(limiter.settle(Keys.of("{7}:t", tokens.take(1200).used(0)).andSlots("{7}:r"), lost.id()));
      assertThrows(LeaseLostException.class, lost::close);
    }
  }

  @ParameterizedTest
  @EnumSource
  void aShadowThatWasNotChargedIsNotSettled(Clients client) {
    Limit tried = fixed(20, Duration.ofDays(1)).shadow();
    Limit over = fixed(20, Duration.ofHours(1)).shadow();
    try (Limiter limiter = limiter(client)) {
      Keys keys = Keys.of("{7}:s", fixed(1000, Duration.ofDays(7)).take(10), tried.take(5), over.take(30)).and("{7}:sr", Slots.of(1, Duration.ofMinutes(1)));
      limiter.limit("{7}:s", over.take(12));
      try (Admission admission = limiter.admit(keys)) {
        assertTrue(admission.result().shadowed().isPresent());
        admission.used("{7}:s", 15);
      }
      Call look = Call.peek("{7}:s", fixed(1000, Duration.ofDays(7)), tried, over).cost(0).each();
      assertEquals(List.of(985L, 5L, 8L), limiter.ask(look).each().stream().map(Result::remaining).toList());
    }
  }

  @ParameterizedTest
  @EnumSource
  void aServerThatIsAwayIsAnOutageAndOneWithoutTheModuleAMistake(Clients client) {
    Limit limit = rate(1, HOUR);
    try (Server plain = Server.plain();
        Limiter limiter = Limiter.over(Remote.over(client.patient(plain.port), Commands.MODULE))) {
      MistakeException mistake = assertThrows(MistakeException.class, () -> limiter.limit("secret", limit));
      assertTrue(mistake.getMessage().contains("unknown command") && !mistake.getMessage().contains("secret"), mistake.getMessage());
      plain.kill();
      assertThrows(OutageException.class, () -> limiter.limit("k", limit));
      plain.launch();
      Server.await("it is connected again", () -> assertThrows(ThrottleException.class, () -> limiter.limit("k", limit)) instanceof MistakeException);
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"redis://:se/cret@127.0.0.1:1", "redis://:se cret@127.0.0.1:1", "redis://:se[cret@127.0.0.1:1", "redis://:se%cret@127.0.0.1:1", "secret"})
  void anAddressThatIsNoneIsRefusedWithoutItsPassword(String uri) {
    IllegalArgumentException refused = assertThrows(IllegalArgumentException.class, () -> LettuceConnection.of(uri));
    StringWriter told = new StringWriter();
    refused.printStackTrace(new PrintWriter(told));
    assertTrue(refused.getMessage().startsWith("uri is none of Redis"), refused::getMessage);
    assertFalse(told.toString().contains("cret@") || told.toString().contains("secret"), told::toString);
  }
}
