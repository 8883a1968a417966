package io.github.redisthrottle.spring.gateway;

import static io.github.redisthrottle.spring.gateway.Gateway.properties;
import static io.github.redisthrottle.spring.gateway.Gateway.route;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redisthrottle.testing.Server;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.springframework.cloud.gateway.filter.ratelimit.RateLimiter;
import org.springframework.cloud.gateway.filter.ratelimit.RedisRateLimiter;
import redis.clients.jedis.Jedis;

/** Spring's RedisRateLimiter beside this one, with the same arguments, on one server. */
class BesideSpringsTest {
  private static final int RATE = 10;
  private static final int BURST = 20;

  private static final AtomicInteger USERS = new AtomicInteger();
  private static Server server;
  private static Gateway springsGateway;
  private static Gateway oursGateway;
  private static RateLimiter<?> springs;
  private static RateLimiter<?> ours;

  @BeforeAll
  static void start() {
    server = Server.start();
    springsGateway = start(false);
    oursGateway = start(true);
    springs = springsGateway.context.getBean(RedisRateLimiter.class);
    ours = oursGateway.context.getBean(ThrottleRateLimiter.class);
  }

  @AfterAll
  static void stop() {
    oursGateway.close();
    springsGateway.close();
    server.close();
  }

  private static Gateway start(boolean replaces) {
    return Gateway.start(
        server,
        properties(
            List.of("redis-throttle.timeout=20s", "redis-throttle.gateway.replace-redis-rate-limiter=" + replaces),
            route(0, "route", "RequestRateLimiter", "redis-rate-limiter.replenishRate=" + RATE, "redis-rate-limiter.burstCapacity=" + BURST),
            route(1, "small", "RequestRateLimiter", "redis-rate-limiter.replenishRate=" + RATE, "redis-rate-limiter.burstCapacity=4")));
  }

  private static String newUser() {
    return "user" + USERS.incrementAndGet();
  }

  private static boolean allows(RateLimiter<?> limiter, String route, String user) {
    return limiter.isAllowed(route, user).block().isAllowed();
  }

  /** Returns the clock of the server. */
  private static long nowUs(Jedis redis) {
    List<String> time = redis.time();
    return Long.parseLong(time.get(0)) * 1_000_000 + Long.parseLong(time.get(1));
  }

  /**
   * How many requests got through within a time.
   *
   * @param allowed how many got through
   * @param atMost what a burst and the rate allow in that time
   */
  private record Let(int allowed, double atMost) {}

  /** Asks from the end of a second until a request is denied in the next one. */
  private static Let acrossASecond(RateLimiter<?> limiter) {
    String user = newUser();
    try (Jedis redis = server.client()) {
      Server.await("a second is almost over", () -> nowUs(redis) % 1_000_000 > 900_000);
      long began = nowUs(redis);
      int allowed = 0;
      while (true) {
        if (allows(limiter, "route", user)) {
          allowed++;
        } else if (nowUs(redis) / 1_000_000 > began / 1_000_000) {
          return new Let(allowed, BURST + RATE * (nowUs(redis) - began) / 1e6);
        }
      }
    }
  }

  @Test
  void springsLimiterReturnsAWholeSecondsUnitsWhenTheClockTurns() {
    Server.await(
        "more than the rate gets through",
        () -> {
          Let let = acrossASecond(springs);
          return let.allowed() > let.atMost() + 1;
        });
    for (int i = 0; i < 3; i++) {
      Let let = acrossASecond(ours);
      assertTrue(let.allowed() <= let.atMost(), let::toString);
      assertTrue(let.allowed() >= BURST, let::toString);
    }
  }

  @Test
  void springsLimiterLimitsNothingIfTheBurstIsLessThanHalfTheRate() {
    String user = newUser();
    try (Jedis redis = server.client()) {
      for (int i = 0; i < 100; i++) {
        assertTrue(allows(springs, "small", user), "its state is kept for 0 s, so each request finds a full bucket");
      }
      long began = nowUs(redis);
      int allowed = 0;
      for (int i = 0; i < 100; i++) {
        allowed += allows(ours, "small", user) ? 1 : 0;
      }
      double atMost = 4 + RATE * (nowUs(redis) - began) / 1e6;
      assertTrue(allowed >= 4 && allowed <= atMost, allowed + " of at most " + atMost);
    }
  }

  @Test
  void aServerThatHangsHoldsUpSpringsLimiter() {
    try (Server hung = Server.start();
        Gateway springsGateway = outage(hung, false);
        Gateway oursGateway = outage(hung, true)) {
      RateLimiter<?> springs = springsGateway.context.getBean(RedisRateLimiter.class);
      RateLimiter<?> ours = oursGateway.context.getBean(ThrottleRateLimiter.class);
      assertTrue(allows(springs, "route", "ann") && allows(ours, "route", "ann"));
      hung.pause();
      CompletableFuture<RateLimiter.Response> waiting = springs.isAllowed("route", "ann").toFuture();
      RateLimiter.Response response = ours.isAllowed("route", "ann").block();
      assertTrue(response.isAllowed());
      assertEquals("-1", response.getHeaders().get("X-RateLimit-Remaining"));
      assertFalse(waiting.isDone(), "Spring Data Redis waits a minute by default");
      hung.resume();
      waiting.join();
    }
  }

  private static Gateway outage(Server hung, boolean replaces) {
    return Gateway.start(
        hung,
        properties(
            List.of("redis-throttle.gateway.replace-redis-rate-limiter=" + replaces),
            route(0, "route", "RequestRateLimiter", "redis-rate-limiter.replenishRate=" + RATE, "redis-rate-limiter.burstCapacity=" + BURST)));
  }
}
