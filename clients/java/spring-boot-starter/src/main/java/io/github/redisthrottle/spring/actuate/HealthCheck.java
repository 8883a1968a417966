package io.github.redisthrottle.spring.actuate;

import io.github.redisthrottle.Limit;
import io.github.redisthrottle.Limiter;
import io.github.redisthrottle.OutageException;
import io.github.redisthrottle.Result;
import io.github.redisthrottle.ThrottleException;
import java.time.Duration;
import java.util.Optional;

/** Asks whether Redis decides calls: a look that charges nothing and writes no key. */
final class HealthCheck {
  private static final Limit ANY = Limit.rate(1, Duration.ofSeconds(1));

  private HealthCheck() {}

  /** Returns what is wrong. */
  static Optional<ThrottleException> failure(Limiter limiter) {
    try {
      Result.By by = limiter.peek("redis-throttle:health", ANY).by();
      boolean without = by == Result.By.LOCAL || by == Result.By.POLICY;
      return without ? Optional.of(new OutageException("Redis is out of reach, and calls are decided without it", null)) : Optional.empty();
    } catch (ThrottleException e) {
      return Optional.of(e);
    }
  }
}
