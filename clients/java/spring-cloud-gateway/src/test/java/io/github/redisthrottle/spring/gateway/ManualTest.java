package io.github.redisthrottle.spring.gateway;

import static io.github.redisthrottle.spring.gateway.Gateway.field;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redisthrottle.testing.Server;
import java.net.http.HttpResponse;
import java.util.List;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/**
 * Routes as Spring's manual writes them: with Spring's limiter and, by one property, with this one, requests get the
 * same answers.
 */
class ManualTest {
  private static final String SPRINGS = SpringsSettings.PREFIX + ".";

  private static Server server;
  private static Gateway springs;
  private static Gateway ours;

  @BeforeAll
  static void start() {
    server = Server.start();
    springs = start(false);
    ours = start(true);
  }

  @AfterAll
  static void stop() {
    ours.close();
    springs.close();
    server.close();
  }

  private static Gateway start(boolean replaces, String... more) {
    String[] properties = {"spring.config.location=classpath:/manual.yml", "redis-throttle.gateway.replace-redis-rate-limiter=" + replaces, "redis-throttle.timeout=20s"};
    return Gateway.start(server, Stream.concat(Stream.of(properties), Stream.of(more)).toArray(String[]::new));
  }

  /** Returns what a client of Spring's limiter sees: the status and its headers. */
  private static String seen(HttpResponse<String> response) {
    TreeMap<String, List<String>> headers = new TreeMap<>(response.headers().map());
    headers.keySet().removeIf(name -> !name.startsWith("x-"));
    return response.statusCode() + " " + headers;
  }

  private static void same(String status, String path) {
    String expected = seen(springs.get(path));
    assertTrue(expected.startsWith(status), expected);
    assertEquals(expected, seen(ours.get(path)), path);
  }

  @Test
  void answersAreThoseOfSpringsLimiter() {
    same("200 {x-ratelimit-burst-capacity=[20], x-ratelimit-remaining=[19], x-ratelimit-replenish-rate=[10], x-ratelimit-requested-tokens=[1]}", "/manual/a?user=ann");
    same("401 {}", "/manual/a");
    same("200 {x-ratelimit-burst-capacity=[60], x-ratelimit-remaining=[0]", "/minute/a?user=ann");
    same("429", "/closed/a?user=ann");
    same("200 {x-ratelimit-burst-capacity=[60]", "/property/a?user=ann");
    same("200 {x-ratelimit-burst-capacity=[60]", "/status/a?user=ann");
    same("200 {}", "/status/a");
  }

  @Test
  void aDeniedRequestHasTheStatusOfItsRoute() {
    for (Gateway gateway : List.of(springs, ours)) {
      assertEquals(200, gateway.get("/minute/a?user=bob").statusCode());
      HttpResponse<String> denied = gateway.get("/minute/a?user=bob");
      assertEquals(429, denied.statusCode());
      assertEquals(200, gateway.get("/status/a?user=bob").statusCode());
      assertEquals(503, gateway.get("/status/a?user=bob").statusCode());
      if (gateway == ours) {
        int after = Integer.parseInt(field(denied, "Retry-After"));
        assertTrue(after >= 1 && after <= 60, "Retry-After: " + after);
        assertEquals("\"default\";q=60;w=60", field(denied, "RateLimit-Policy"));
      }
    }
  }

  @Test
  void oneLimiterIsAskedAndNotTheOther() {
    springs.get("/minute/a?user=eve");
    ours.get("/minute/a?user=mia");
    try (var redis = server.client()) {
      assertTrue(redis.exists("gateway:once_a_minute:mia"));
      assertTrue(redis.keys("request_rate_limiter*mia*").isEmpty());
      assertTrue(redis.keys("gateway:*eve*").isEmpty());
      assertEquals(2, redis.keys("request_rate_limiter*eve*").size());
    }
  }

  @Test
  void headersHaveTheNamesThatSpringsPropertiesGiveThem() {
    String[] names = {
      SPRINGS + "remaining-header=X-Left",
      SPRINGS + "replenish-rate-header=X-Rate",
      SPRINGS + "burst-capacity-header=X-Burst",
      SPRINGS + "requested-tokens-header=X-Cost"
    };
    try (Gateway springsNamed = start(false, names);
        Gateway oursNamed = start(true, names)) {
      String expected = seen(springsNamed.get("/manual/a?user=zoe"));
      assertEquals("200 {x-burst=[20], x-cost=[1], x-left=[19], x-rate=[10]}", expected);
      assertEquals(expected, seen(oursNamed.get("/manual/a?user=zoe")));
    }
  }

  @Test
  void withoutHeadersNothingTellsOfLimits() {
    try (Gateway silent = start(true, SPRINGS + "include-headers=false")) {
      for (int i = 0; i < 2; i++) {
        HttpResponse<String> response = silent.get("/minute/a?user=joe");
        assertEquals((i == 0 ? 200 : 429) + " {}", seen(response));
        assertEquals("", field(response, "RateLimit") + field(response, "RateLimit-Policy") + field(response, "Retry-After"));
      }
    }
  }
}
