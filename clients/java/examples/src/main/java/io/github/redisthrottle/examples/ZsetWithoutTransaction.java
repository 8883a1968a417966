package io.github.redisthrottle.examples;

import java.time.Clock;
import java.util.UUID;
import redis.clients.jedis.Jedis;

/**
 * A sorted set of the last minute, read and then written. Callers at the same time see the same count, and all of them
 * go ahead.
 */
public record ZsetWithoutTransaction(Jedis redis, Clock clock, Runnable between) implements Recipe {
  @Override
  public boolean allows(String user) {
    String key = "calls:" + user;
    redis.zremrangeByScore(key, 0, (double) clock.millis() - 60_000);
    boolean allowed = redis.zcard(key) < CALLS;
    between.run();
    if (allowed) {
      redis.zadd(key, (double) clock.millis(), UUID.randomUUID().toString());
      redis.expire(key, 60);
    }
    return allowed;
  }
}
