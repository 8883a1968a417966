package io.github.redisthrottle.examples;

import static io.github.redisthrottle.Limit.fixed;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redisthrottle.Commands;
import io.github.redisthrottle.Limiter;
import io.github.redisthrottle.Remote;
import io.github.redisthrottle.testing.Clients;
import io.github.redisthrottle.testing.Server;
import java.time.Clock;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.function.Supplier;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;
import redis.clients.jedis.Jedis;

/** What is wrong with each recipe, and that it holds with this package. */
class RecipesTest {
  private static final int CALLERS = 10;
  private static Server server;
  private static Limiter limiter;

  @BeforeAll
  static void start() {
    server = Server.start();
    limiter = Limiter.over(Remote.over(Clients.LETTUCE.patient(server.port), Commands.MODULE));
  }

  @AfterAll
  static void stop() {
    limiter.close();
    server.close();
  }

  @BeforeEach
  void empty() {
    try (Jedis redis = server.client()) {
      redis.flushAll();
    }
  }

  private static Clock at(String time) {
    return Clock.fixed(Instant.parse(time), ZoneOffset.UTC);
  }

  private static int allowed(Recipe recipe, int calls) {
    int allowed = 0;
    for (int i = 0; i < calls; i++) {
      allowed += recipe.allows("ann") ? 1 : 0;
    }
    return allowed;
  }

  @Test
  void incrAndExpireLetsThroughTwiceTheLimitAroundTheChangeOfTheMinute() {
    try (Jedis redis = server.client()) {
      int before = allowed(new IncrAndExpire(redis, at("2026-01-01T00:00:59.900Z"), () -> {}), 40);
      int after = allowed(new IncrAndExpire(redis, at("2026-01-01T00:01:00.100Z"), () -> {}), 40);
      assertEquals(60, before + after, "within 0.2 s");
    }
  }

  @Test
  void incrAndExpireLeavesAKeyForeverWhereTheProcessDies() {
    try (Jedis redis = server.client()) {
      Recipe dies =
          new IncrAndExpire(
              redis,
              at("2026-01-01T00:00:00Z"),
              () -> {
                throw new IllegalStateException("the process dies");
              });
      assertThrows(IllegalStateException.class, () -> dies.allows("ann"));
      assertEquals(-1, redis.ttl(redis.keys("*").iterator().next()));
    }
  }

  @Test
  void timesUnderKeysCountCallsThatAreDenied() {
    try (Jedis redis = server.client()) {
      assertEquals(30, allowed(new TimesUnderKeys(redis, at("2026-01-01T00:00:00Z")), 60));
      // A minute and a second after the last call that went ahead, the caller that has kept asking is denied for the
      // calls that were denied.
      allowed(new TimesUnderKeys(redis, at("2026-01-01T00:00:30Z")), 30);
      assertFalse(new TimesUnderKeys(redis, at("2026-01-01T00:01:01Z")).allows("ann"));
      assertEquals(-1, redis.ttl("calls:ann:2026-01-01:count"));
    }
  }

  @Test
  void timesUnderKeysLetThroughTwiceTheLimitAroundMidnight() {
    try (Jedis redis = server.client()) {
      int before = allowed(new TimesUnderKeys(redis, at("2026-01-01T23:59:59.900Z")), 30);
      int after = allowed(new TimesUnderKeys(redis, at("2026-01-02T00:00:00.100Z")), 30);
      assertEquals(60, before + after);
    }
  }

  @Test
  void aZsetWithoutTransactionLetsThroughAllCallersOfAMoment() {
    Clock clock = at("2026-01-01T00:00:00Z");
    try (Jedis redis = server.client()) {
      assertEquals(29, allowed(new ZsetWithoutTransaction(redis, clock, () -> {}), 29));
    }
    CyclicBarrier together = new CyclicBarrier(CALLERS);
    int allowed =
        atOnce(
            () -> {
              try (Jedis redis = server.client()) {
                return new ZsetWithoutTransaction(redis, clock, () -> await(together)).allows("ann");
              }
            });
    assertEquals(CALLERS, allowed, "of the one call that was left");
  }

  @Test
  void redissonKeepsTheLimitThatWasSetFirst() {
    RedissonClient redisson = redisson();
    try {
      assertEquals(5, allowed(new WithRedisson(redisson, 5, Duration.ofHours(1)), 10));
      assertEquals(0, allowed(new WithRedisson(redisson, 30, Duration.ofMillis(1)), 10), "5 an hour, and not 30 a millisecond");
    } finally {
      redisson.shutdown();
    }
  }

  @Test
  void redissonLeavesKeysForever() {
    RedissonClient redisson = redisson();
    try (Jedis redis = server.client()) {
      new WithRedisson(redisson, 30, Duration.ofSeconds(1)).allows("ann");
      Set<String> keys = redis.keys("*calls:ann*");
      assertTrue(keys.stream().anyMatch(key -> redis.pttl(key) == -1), keys + " go away by themselves");
    } finally {
      redisson.shutdown();
    }
  }

  private static RedissonClient redisson() {
    Config config = new Config();
    config.useSingleServer().setAddress("redis://127.0.0.1:" + server.port).setConnectionMinimumIdleSize(1).setConnectionPoolSize(4).setTimeout(30_000);
    return Redisson.create(config);
  }

  @Test
  void withThisPackageANewLimitHoldsAtOnce() {
    assertEquals(30, allowed(user -> limiter.limit("new:" + user, fixed(30, Duration.ofDays(10_000))).allowed(), 40));
    assertEquals(10, allowed(user -> limiter.limit("new:" + user, fixed(40, Duration.ofDays(10_000))).allowed(), 40));
  }

  @Test
  void withThisPackageOneCallerOfAMomentIsLetThrough() {
    Recipe recipe = new WithThisPackage(limiter, Duration.ofMinutes(1));
    assertEquals(29, allowed(recipe, 29));
    CyclicBarrier together = new CyclicBarrier(CALLERS);
    assertEquals(
        1,
        atOnce(
            () -> {
              await(together);
              return recipe.allows("ann");
            }));
    try (Jedis redis = server.client()) {
      assertTrue(redis.pttl("api:ann") > 0, "the key goes away by itself");
    }
  }

  @Test
  void withThisPackageDeniedCallsDoNotCountAndNoIntervalHasMore() {
    Duration period = Duration.ofSeconds(2);
    Recipe recipe = new WithThisPackage(limiter, period);
    List<Long> asked = new ArrayList<>();
    List<Long> answered = new ArrayList<>();
    // The caller keeps asking, and is let through again and again.
    Server.await(
        "35 calls were let through",
        () -> {
          long began = System.nanoTime();
          if (recipe.allows("ann")) {
            asked.add(began);
            answered.add(System.nanoTime());
          }
          return asked.size() >= 35;
        });
    for (int i = 30; i < asked.size(); i++) {
      assertTrue(answered.get(i) - asked.get(i - 30) >= period.toNanos(), "31 calls in one period");
    }
  }

  private static int atOnce(Supplier<Boolean> call) {
    ExecutorService threads = Executors.newFixedThreadPool(CALLERS);
    List<CompletableFuture<Boolean>> calls = new ArrayList<>();
    for (int i = 0; i < CALLERS; i++) {
      calls.add(CompletableFuture.supplyAsync(call, threads));
    }
    int allowed = (int) calls.stream().filter(CompletableFuture::join).count();
    threads.shutdown();
    return allowed;
  }

  private static void await(CyclicBarrier barrier) {
    try {
      barrier.await();
    } catch (Exception e) {
      throw new IllegalStateException(e);
    }
  }
}
