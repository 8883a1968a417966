package io.github.redisthrottle.spring.actuate;

import io.github.redisthrottle.Limit;
import io.github.redisthrottle.Limiter;
import io.github.redisthrottle.ThrottleException;
import java.time.Duration;
import java.util.Optional;

/** Asks whether calls are decided: a look that charges nothing and writes no key. */
final class HealthCheck {
  private static final Limit ANY = Limit.rate(1, Duration.ofSeconds(1));

  private HealthCheck() {}

  /** Returns what is wrong. */
  static Optional<ThrottleException> failure(Limiter limiter) {
    try {
      var unused = limiter.peek("redis-throttle:health", ANY);
      return Optional.empty();
    } catch (ThrottleException e) {
      return Optional.of(e);
    }
  }
}
