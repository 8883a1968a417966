package io.github.redisthrottle.examples;

import java.time.Clock;
import java.time.LocalDate;
import redis.clients.jedis.Jedis;

/**
 * A counter a day, and the time of each call under a key of its own, which is compared with the one 30 back. Calls that
 * are denied count, so a caller that keeps asking is never let through again; the counter has no expiry; and at
 * midnight the call 30 back is not found.
 */
public record TimesUnderKeys(Jedis redis, Clock clock) implements Recipe {
  @Override
  public boolean allows(String user) {
    String prefix = "calls:" + user + ":" + LocalDate.now(clock) + ":";
    long number = redis.incr(prefix + "count");
    redis.setex(prefix + number, 86_400, String.valueOf(clock.millis()));
    String before = redis.get(prefix + (number - CALLS));
    return before == null || clock.millis() - Long.parseLong(before) >= 60_000;
  }
}
