package io.github.redisthrottle.spring.actuate;

import io.github.redisthrottle.Limiter;
import org.springframework.boot.health.contributor.Health;
import org.springframework.boot.health.contributor.HealthIndicator;

/** Tells Boot 4 whether calls are decided. */
public final class Boot4HealthIndicator implements HealthIndicator {
  private final Limiter limiter;

  /** Makes one. */
  public Boot4HealthIndicator(Limiter limiter) {
    this.limiter = limiter;
  }

  @Override
  public Health health() {
    return HealthCheck.failure(limiter)
        .map(error -> Health.down(error).withDetail("code", error.code()).build())
        .orElseGet(() -> Health.up().build());
  }
}
