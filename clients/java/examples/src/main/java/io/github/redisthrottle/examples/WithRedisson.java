package io.github.redisthrottle.examples;

import java.time.Duration;
import org.redisson.api.RRateLimiter;
import org.redisson.api.RateType;
import org.redisson.api.RedissonClient;

/**
 * Redisson's limiter. The limit is set once, on the server: with the next version of the program that takes another
 * one, the old one goes on. Each call in progress is kept as an entry of a sorted set, by the clock of the process that
 * asks, and the keys of a user who never comes back stay for ever.
 */
public record WithRedisson(RedissonClient redisson, int calls, Duration period) implements Recipe {
  @Override
  public boolean allows(String user) {
    RRateLimiter limiter = redisson.getRateLimiter("calls:" + user);
    limiter.trySetRate(RateType.OVERALL, calls, period);
    return limiter.tryAcquire();
  }
}
