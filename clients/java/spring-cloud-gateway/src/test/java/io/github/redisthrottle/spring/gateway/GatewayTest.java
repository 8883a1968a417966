package io.github.redisthrottle.spring.gateway;

import static io.github.redisthrottle.spring.gateway.Gateway.field;
import static io.github.redisthrottle.spring.gateway.Gateway.properties;
import static io.github.redisthrottle.spring.gateway.Gateway.route;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redisthrottle.testing.Server;
import java.net.http.HttpResponse;
import java.util.List;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.cloud.gateway.route.Route;
import org.springframework.cloud.gateway.route.RouteLocator;
import org.springframework.cloud.gateway.route.builder.BooleanSpec;
import org.springframework.cloud.gateway.route.builder.Buildable;
import org.springframework.cloud.gateway.route.builder.RouteLocatorBuilder;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;

/** Routes with any period, several limits and several keys; what becomes of requests in an outage; mistakes. */
class GatewayTest {
  private static final List<String> COMMON = List.of("redis-throttle.timeout=20s", "redis-throttle.limits.plans.pro=RATE 2/h NAME pro");
  private static final List<String> REPLACE = List.of("redis-throttle.gateway.replace-redis-rate-limiter=true");

  private static Server server;
  private static Gateway gateway;

  /** Routes that are made in code. */
  @Configuration(proxyBeanMethods = false)
  static class InCode {
    @Bean
    RouteLocator inCode(RouteLocatorBuilder builder) {
      return builder
          .routes()
          .route("code", route -> limited(route.path("/code/**"), "plans.pro"))
          .route("wrong", route -> limited(route.path("/wrong/**"), "plans.por"))
          .build();
    }

    private static Buildable<Route> limited(BooleanSpec route, String limits) {
      return route
          .filters(filters -> filters.requestRateLimiter().rateLimiter(ThrottleRateLimiter.class, config -> config.setLimits(limits)).and())
          .uri(Gateway.service(""));
    }
  }

  @BeforeAll
  static void start() {
    server = Server.start();
    gateway =
        Gateway.start(
            server,
            List.of(InCode.class),
            properties(
                COMMON,
                REPLACE,
                route(0, "ours", "RequestRateLimiter", "redis-throttle.limits=RATE 2/h NAME hourly; FIXED 1000/d NAME daily"),
                route(
                    1,
                    "keys",
                    "Throttle",
                    "keys[0].key='{'+header('X-Org')+'}:'+query('user')",
                    "keys[0].limits=plans.pro",
                    "keys[1].key='{'+header('X-Org')+'}'",
                    "keys[1].limits=RATE 3/h NAME all")));
  }

  @AfterAll
  static void stop() {
    gateway.close();
    server.close();
  }

  @Test
  void aRouteHasAnyPeriodAndSeveralLimits() {
    HttpResponse<String> first = gateway.get("/ours/a?user=ann");
    assertEquals("served", first.body());
    assertEquals("\"hourly\";q=2;w=3600, \"daily\";q=1000;w=86400", field(first, "RateLimit-Policy"));
    assertEquals("1", field(first, "X-RateLimit-Remaining"));
    assertEquals("", field(first, "X-RateLimit-Replenish-Rate"));
    assertEquals(200, gateway.get("/ours/a?user=ann").statusCode());
    assertEquals(429, gateway.get("/ours/a?user=ann").statusCode());
  }

  @Test
  void theFilterThrottleHasSeveralKeys() {
    for (int i = 0; i < 2; i++) {
      assertEquals(200, gateway.get("/keys/a?user=ann", "X-Org", "acme").statusCode());
    }
    HttpResponse<String> denied = gateway.get("/keys/a?user=ann", "X-Org", "acme");
    assertEquals(429, denied.statusCode());
    assertTrue(denied.body().contains("\"violated-policies\": [\"pro\"]"), denied.body());
    assertEquals(200, gateway.get("/keys/a?user=bob", "X-Org", "acme").statusCode());
    assertTrue(gateway.get("/keys/a?user=eve", "X-Org", "acme").body().contains("[\"all\"]"));
  }

  @Test
  void aRouteIsMadeInCode() {
    assertEquals(200, gateway.get("/code/a?user=ann").statusCode());
    assertEquals(200, gateway.get("/code/a?user=ann").statusCode());
    assertEquals(429, gateway.get("/code/a?user=ann").statusCode());
    assertEquals(500, gateway.get("/wrong/a?user=ann").statusCode(), "a mistake in the code of a route does not open it");
  }

  @Test
  void inAnOutageTheAnswerDecides() {
    try (Server other = Server.start()) {
      String[] allow = properties(REPLACE, route(0, "ours", "RequestRateLimiter", "redis-throttle.limits=RATE 2/h"), List.of("redis-throttle.outage=allow"));
      String[] deny = properties(REPLACE, route(0, "ours", "RequestRateLimiter", "redis-throttle.limits=RATE 2/h"), List.of("redis-throttle.outage=deny"));
      try (Gateway allows = Gateway.start(other, allow);
          Gateway denies = Gateway.start(other, deny)) {
        other.pause();
        HttpResponse<String> allowed = allows.get("/ours/a?user=ann");
        assertEquals(200, allowed.statusCode());
        assertEquals("-1", field(allowed, "X-RateLimit-Remaining"));
        HttpResponse<String> denied = denies.get("/ours/a?user=ann");
        assertEquals(503, denied.statusCode());
        assertEquals("1", field(denied, "Retry-After"));
      }
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"true", "false"})
  void aRouteNamesTheLimiterWhereItReplacesNone(String springs) {
    String redis = "spring.cloud.gateway.server.webflux.redis.enabled=" + springs; // whether Spring's own limiter is there
    try (Gateway beside =
        Gateway.start(
            server,
            properties(
                COMMON,
                List.of(redis),
                route(0, "named" + springs, "RequestRateLimiter", "rate-limiter=#{@throttleRateLimiter}", "redis-throttle.limits=plans.pro")))) {
      assertEquals("\"pro\";q=2;w=3600", field(beside.get("/named" + springs + "/a?user=ann"), "RateLimit-Policy"));
    }
  }

  @Test
  void anApplicationWithoutAGatewayStarts() {
    List<String> off = List.of("spring.cloud.gateway.server.webflux.enabled=false", "spring.cloud.gateway.server.webflux.redis.enabled=false");
    Gateway.start(server, properties(COMMON, REPLACE, off)).close();
  }

  @Test
  void mistakesAreRefusedAtStart() {
    String args = "spring.cloud.gateway.server.webflux.routes[0].filters[0].args";
    refused(args, "give either redis-throttle.limits", route(0, "r", "RequestRateLimiter", "redis-rate-limiter.burstCapacity=3"));
    refused(args, "the names are plans.pro", route(0, "r", "RequestRateLimiter", "redis-throttle.limits=plans.por"));
    refused(
        args,
        "no request would ever be let through",
        route(0, "r", "RequestRateLimiter", "redis-rate-limiter.replenishRate=1", "redis-rate-limiter.burstCapacity=20", "redis-rate-limiter.requestedTokens=60"));
    refused(args, "it has no limits", route(0, "r", "RequestRateLimiter", "key-resolver=#{@userKeyResolver}"));
    refused(args + ".key", "none of address", route(0, "r", "Throttle", "limits=plans.pro", "key=adress"));
    refused(SpringsSettings.PREFIX + ".config.r", "replenishRate is 1 or more", List.of(SpringsSettings.PREFIX + ".config.r.replenish-rate=0"));
  }

  private static void refused(String property, String what, List<String> route) {
    Throwable root = assertThrows(Exception.class, () -> Gateway.start(server, properties(COMMON, REPLACE, route)).close());
    while (root.getCause() != null && !root.getMessage().contains(what)) {
      root = root.getCause();
    }
    assertTrue(root.getMessage().contains(what) && root.getMessage().contains(property + " "), root::toString);
  }
}
