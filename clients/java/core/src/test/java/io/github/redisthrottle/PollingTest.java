package io.github.redisthrottle;

import static io.github.redisthrottle.Limit.fixed;
import static io.github.redisthrottle.Limit.rate;
import static io.github.redisthrottle.Limit.window;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redisthrottle.testing.Clients;
import io.github.redisthrottle.testing.Server;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import redis.clients.jedis.Jedis;

/** Calls that wait on a server without the module. */
class PollingTest {
  private static final Duration DAY = Duration.ofDays(1);
  private static Server plain;

  @BeforeAll
  static void start() {
    plain = Server.plain();
  }

  @AfterAll
  static void stop() {
    plain.close();
  }

  private static Limiter limiter(Clients client, Commands commands) {
    try (Jedis jedis = plain.client()) {
      jedis.flushAll();
    }
    return Limiter.over(Remote.over(client.patient(plain.port), commands).poll(Duration.ofMillis(20)));
  }

  @ParameterizedTest
  @EnumSource
  void withoutTheOptionOrWithALineItIsAMistake(Clients client) {
    try (Limiter limiter = Limiter.over(Remote.over(client.patient(plain.port)))) {
      MistakeException mistake = assertThrows(MistakeException.class, () -> limiter.waitFor("w", rate(1, DAY)));
      assertTrue(mistake.getMessage().contains("CL.WAIT needs the module, or the option poll"), mistake.getMessage());
    }
    try (Limiter limiter = limiter(client, Commands.FUNCTIONS)) {
      assertThrows(MistakeException.class, () -> limiter.ask(Call.waitFor("w", rate(1, DAY)).priority(1)));
    }
  }

  @ParameterizedTest
  @EnumSource
  void aRateIsReservedAndAWindowAskedForAgain(Clients client) {
    Limit rate = rate(1, Duration.ofMillis(300)).burst(1);
    Limit window = window(1, Duration.ofMillis(300));
    try (Limiter limiter = limiter(client, Commands.AUTO)) {
      limiter.waitFor("r", rate);
      Server.await("a caller waits for the rate", () -> limiter.waitFor("r", rate).waited().toMillis() > 0);
      limiter.waitFor("w", window);
      Server.await("a caller waits for the window", () -> limiter.waitFor("w", window).waited().toMillis() > 0);
      limiter.waitFor("late", rate(1, DAY));
      Result late = limiter.ask(Call.waitFor("late", rate(1, DAY)).maxWait(Duration.ofMinutes(1)));
      assertTrue(late.limited() && late.waited().toSeconds() < 30, "it is denied at once, since it would come too late");
      limiter.ban("banned", DAY);
      for (Limit limit : List.of(rate, window)) {
        Result banned = limiter.ask(Call.waitFor("banned", limit).maxWait(Duration.ofHours(1)));
        assertTrue(banned.banned() && banned.waited().toSeconds() < 30, "the ban lasts longer, of which it is told at once");
      }
      limiter.waitFor("f", fixed(1, DAY));
      assertTrue(limiter.ask(Call.waitFor("f", fixed(1, DAY)).maxWait(Duration.ofMillis(100))).limited());
      assertTrue(limiter.ask(Call.waitFor("f", fixed(1, DAY)).cost(2)).limited(), "no waiting ends that");
    }
  }

  @ParameterizedTest
  @EnumSource
  void aReservationIsReturnedWhenItsCallerLeaves(Clients client) {
    Limit hourly = rate(1, Duration.ofHours(1));
    try (Limiter limiter = limiter(client, Commands.FUNCTIONS)) {
      assertEquals(0, limiter.limit("r", hourly).remaining());
      long before = limiter.peek("r", hourly).retryAfter().orElseThrow().toMinutes();
      CompletableFuture<Result.Allowed> waiting = limiter.async().waitFor("r", hourly).toCompletableFuture();
      Server.await("it is reserved", () -> limiter.peek("r", hourly).retryAfter().orElseThrow().toMinutes() > before + 30);
      assertFalse(waiting.isDone());
      waiting.cancel(true);
      Server.await("it is returned", () -> limiter.peek("r", hourly).retryAfter().orElseThrow().toMinutes() <= before);
    }
  }

  @ParameterizedTest
  @EnumSource
  void aLeaseWaitsForASlot(Clients client) {
    Slots one = Slots.of(1, Duration.ofMinutes(1));
    try (Limiter limiter = limiter(client, Commands.AUTO)) {
      Lease lease = limiter.lease("l", one);
      CompletableFuture<Lease> next = limiter.async().lease(Call.lease("l", one).maxWait(Duration.ofSeconds(30))).toCompletableFuture();
      lease.release();
      next.join().close();
      limiter.lease("l", one).close();
    }
  }
}
