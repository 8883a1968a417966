package io.github.redisthrottle.examples;

import java.time.Clock;
import redis.clients.jedis.Jedis;

/**
 * INCR and EXPIRE, with a key for each minute. Around the change of the minute it lets through twice the limit, and a
 * process that dies between the two commands leaves a key that never goes away.
 */
public record IncrAndExpire(Jedis redis, Clock clock, Runnable between) implements Recipe {
  @Override
  public boolean allows(String user) {
    String key = "calls:" + user + ":" + clock.instant().getEpochSecond() / 60;
    long calls = redis.incr(key);
    if (calls == 1) {
      between.run();
      redis.expire(key, 60);
    }
    return calls <= CALLS;
  }
}
