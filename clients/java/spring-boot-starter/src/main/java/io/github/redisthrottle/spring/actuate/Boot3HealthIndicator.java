package io.github.redisthrottle.spring.actuate;

import io.github.redisthrottle.Limiter;
import org.springframework.boot.actuate.health.Health;
import org.springframework.boot.actuate.health.HealthIndicator;

/** Tells Boot 3 whether calls are decided. */
public final class Boot3HealthIndicator implements HealthIndicator {
  private final Limiter limiter;

  /** Makes one. */
  public Boot3HealthIndicator(Limiter limiter) {
    this.limiter = limiter;
  }

  @Override
  public Health health() {
    return HealthCheck.failure(limiter)
        .map(error -> Health.down(error).withDetail("code", error.code()).build())
        .orElseGet(() -> Health.up().build());
  }
}
