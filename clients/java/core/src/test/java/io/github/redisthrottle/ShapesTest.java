package io.github.redisthrottle;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redisthrottle.shapes.NamedRateLimiter;
import io.github.redisthrottle.shapes.NamedSemaphore;
import io.github.redisthrottle.testing.Clients;
import io.github.redisthrottle.testing.Server;
import java.time.Duration;
import java.util.Optional;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

class ShapesTest {
  private static Server server;
  private static Limiter limiter;

  @BeforeAll
  static void start() {
    server = Server.start();
    limiter = Limiter.over(Remote.over(Clients.LETTUCE.patient(server.port)));
  }

  @AfterAll
  static void stop() {
    limiter.close();
    server.close();
  }

  @Test
  void permitsAreTakenAllOrNone() {
    NamedRateLimiter permits = NamedRateLimiter.of(limiter, "hourly", Limit.rate(5, Duration.ofHours(1)));
    assertTrue(permits.tryAcquire(3));
    assertFalse(permits.tryAcquire(3));
    assertEquals(2, permits.availablePermits());
    assertFalse(permits.tryAcquire(3, Duration.ofSeconds(1)));
    permits.release(1);
    assertEquals(Duration.ZERO, permits.acquire(3));
    assertThrows(LimitedException.class, () -> permits.acquire(6));
  }

  /** Redisson keeps the rate that was set first (5098 of its tracker). */
  @Test
  void aNewRateHoldsAtOnce() {
    assertTrue(NamedRateLimiter.of(limiter, "new", Limit.fixed(1, Duration.ofDays(1))).tryAcquire());
    assertTrue(NamedRateLimiter.of(limiter, "new", Limit.fixed(10, Duration.ofDays(1))).tryAcquire(9));
  }

  @Test
  void permitsComeBackAtTheirRate() {
    NamedRateLimiter permits = NamedRateLimiter.of(limiter, "fast", Limit.rate(1, Duration.ofMillis(200)));
    assertTrue(permits.tryAcquire());
    Server.await("a permit is waited for", () -> permits.acquire().toMillis() > 0);
    permits.reset();
    assertEquals(1, permits.availablePermits());
  }

  /** Redisson's semaphore has more permits than it should after a release too many (7329, 7342 of its tracker). */
  @Test
  void aReleaseTooManyFreesNothing() {
    NamedSemaphore semaphore = NamedSemaphore.of(limiter, "jobs", Slots.of(1, Duration.ofMinutes(1)));
    String id = semaphore.acquire();
    assertTrue(semaphore.isHeld(id));
    assertEquals(Optional.empty(), semaphore.tryAcquire());
    assertTrue(semaphore.release(id));
    assertFalse(semaphore.release(id));
    String next = semaphore.tryAcquire(Duration.ofSeconds(10)).orElseThrow();
    assertEquals(Optional.empty(), semaphore.tryAcquire());
    semaphore.release(next);
  }

  @Test
  void aPermitIsGivenBackByAnotherProcess() {
    Slots one = Slots.of(1, Duration.ofMinutes(1));
    String id = NamedSemaphore.of(limiter, "handed over", one).acquire();
    try (Limiter other = Limiter.over(Remote.over(Clients.LETTUCE.patient(server.port)))) {
      NamedSemaphore there = NamedSemaphore.of(other, "handed over", one);
      assertFalse(there.release("nobody's"));
      assertTrue(there.release(id));
      assertFalse(there.release(id));
      assertTrue(there.tryAcquire().isPresent());
    }
  }

  @Test
  void aWaitIsBoundedAndNotNegative() {
    Limit hourly = Limit.rate(1, Duration.ofHours(1));
    for (Limiter each : new Limiter[] {limiter, new FakeLimiter().limiter()}) {
      assertTrue(each.waitFor("bounded", Duration.ofSeconds(10), hourly).allowed());
      assertThrows(LimitedException.class, () -> each.waitFor("bounded", Duration.ofSeconds(1), hourly));
      Duration negative = Duration.ofMillis(-5);
      assertThrows(IllegalArgumentException.class, () -> each.waitFor("negative", negative, hourly));
      assertThrows(IllegalArgumentException.class, () -> each.async().waitFor("negative", negative, hourly));
      assertThrows(IllegalArgumentException.class, () -> each.ask(Call.limit("negative", hourly).maxWait(negative)));
      assertThrows(IllegalArgumentException.class, () -> each.lease("negative", Slots.of(1, Duration.ofMinutes(1)), negative));
      assertThrows(IllegalArgumentException.class, () -> NamedRateLimiter.of(each, "negative", hourly).tryAcquire(1, negative));
      assertThrows(IllegalArgumentException.class, () -> NamedSemaphore.of(each, "negative", Slots.of(1, Duration.ofMinutes(1))).tryAcquire(negative));
    }
  }
}
