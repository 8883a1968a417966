package io.github.redisthrottle.spring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.github.redisthrottle.Cached;
import io.github.redisthrottle.Limit;
import io.github.redisthrottle.LimitedException;
import io.github.redisthrottle.Limiter;
import io.github.redisthrottle.Limits;
import io.github.redisthrottle.testing.Server;
import io.micrometer.core.instrument.MeterRegistry;
import java.io.IOException;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.boot.WebApplicationType;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;

/** Numbers that a hash in Redis changes while an application runs. */
class PoliciesOfSpringTest {
  private static final String HASH = "throttle:policies";
  private static final String REFRESH = "redis-throttle.policies.refresh=100ms";

  /** Beans. */
  @Configuration(proxyBeanMethods = false)
  static class Beans {
    @Bean
    Searches searches() {
      return new Searches();
    }

    @Bean
    DeciderCustomizer cache() {
      return Cached::of;
    }
  }

  /** A service with policies. */
  static class Searches {
    @RateLimit(limits = "RATE 100/h", policy = "search")
    void search() {}

    @RateLimit(policy = "plans.pro", name = "report")
    void report() {}
  }

  /** A service without limits. */
  static class Nothing {
    @RateLimit(policy = "nothing")
    void search() {}
  }

  private static void set(Server server, String field, String value) {
    try (var redis = server.client()) {
      redis.hset(HASH, field, value);
    }
  }

  private static String field(HttpResponse<String> response, String name) {
    return response.headers().firstValue(name).orElse("");
  }

  @ParameterizedTest
  @EnumSource(
      value = WebApplicationType.class,
      names = {"SERVLET", "REACTIVE"})
  void aRouteGoesByTheLimitsInForce(WebApplicationType type) throws IOException {
    try (Server server = Server.start();
        Application application =
            Application.start(
                type,
                server,
                List.of(),
                REFRESH,
                "management.endpoints.web.exposure.include=ratelimits",
                "redis-throttle.limits.open=FIXED 100/d",
                "redis-throttle.routes[0].paths=/open/**",
                "redis-throttle.routes[0].limits=open")) {
      assertEquals("\"open\";q=100;w=86400", field(application.get("/open/a"), "RateLimit-Policy"));
      set(server, "open", "FIXED 1/d");
      Server.await("the other number counts", () -> application.get("/open/a").statusCode() == 429);
      HttpResponse<String> denied = application.get("/open/a");
      assertEquals("\"open\";q=1;w=86400", field(denied, "RateLimit-Policy"));
      assertEquals("open", new ObjectMapper().readTree(denied.body()).at("/violated-policies/0").asText());
      JsonNode told = new ObjectMapper().readTree(application.get("/actuator/ratelimits").body());
      assertEquals("FIXED 100/1d", told.at("/limits/open").asText(), told::toString);
      assertEquals("FIXED 1/d", told.at("/policies/open").asText(), told::toString);
      set(server, "open/http:open:127.0.0.1", "NONE");
      Server.await("everything passes", () -> application.get("/open/a").statusCode() == 200);
      assertEquals("", field(application.get("/open/a"), "RateLimit-Policy"));
    }
  }

  @ParameterizedTest
  @EnumSource(
      value = WebApplicationType.class,
      names = {"SERVLET", "REACTIVE"})
  void aRouteHasTheLimitsOfItsPolicyOrItsOwn(WebApplicationType type) {
    try (Server server = Server.start();
        Application application =
            Application.start(
                type,
                server,
                List.of(),
                "redis-throttle.routes[0].paths=/open/**",
                "redis-throttle.routes[0].policy=plans.pro",
                "redis-throttle.routes[1].paths=/reports/**",
                "redis-throttle.routes[1].limits=RATE 100/h",
                "redis-throttle.routes[1].policy=reports")) {
      set(server, "reports", "RATE 7/h");
      assertEquals("\"pro\";q=2;w=3600", field(application.get("/open/a"), "RateLimit-Policy"));
      Server.await("the policy counts", () -> field(application.get("/reports/a"), "RateLimit-Policy").equals("\"reports\";q=7;w=3600"));
      try (var redis = server.client()) {
        assertTrue(redis.exists("http:reports:127.0.0.1"));
      }
    }
  }

  @Test
  void aMethodGoesByTheLimitsInForceBehindACacheAndBeforeMeters() {
    try (Server server = Server.start();
        Application application = Application.start(WebApplicationType.NONE, server, List.of(Beans.class), REFRESH)) {
      set(server, "search", "FIXED 1/d");
      set(server, "plans.pro", "FIXED 1/d NAME day");
      Searches searches = application.bean(Searches.class);
      Server.await("nothing passes", () -> !passes(searches));
      assertEquals("search", assertThrows(LimitedException.class, searches::search).result().policies().get(0).orElseThrow().name());
      assertThrows(LimitedException.class, searches::search);
      searches.report();
      assertThrows(LimitedException.class, searches::report);
      MeterRegistry meters = application.bean(MeterRegistry.class);
      Server.await("the cache is counted", () -> meters.find("ratelimit.decisions").tags("policy", "search", "by", "cache").counter() != null);
      Server.await("the name is counted", () -> meters.find("ratelimit.decisions").tags("policy", "day", "outcome", "limited").counter() != null);
      set(server, "search", "NONE");
      Server.await("everything passes", () -> passes(searches));
      Server.await("it is counted", () -> meters.find("ratelimit.decisions").tags("policy", "", "by", "none").counter() != null);
    }
  }

  private static boolean passes(Searches searches) {
    try {
      searches.search();
      return true;
    } catch (LimitedException e) {
      return false;
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void theHashHasAnotherNameOrIsNotRead(boolean enabled) {
    try (Server server = Server.start();
        Application application =
            Application.start(WebApplicationType.NONE, server, List.of(), "redis-throttle.policies.hash=ours", "redis-throttle.policies.enabled=" + enabled)) {
      try (var redis = server.client()) {
        redis.hset("ours", "api", "RATE 7/h");
      }
      Limit[] api = Limits.policy("api", Limit.rate(2, Duration.ofHours(1)));
      Server.await("the limits count", () -> application.bean(Limiter.class).peek("k", api).limit() == (enabled ? 7 : 2));
    }
  }

  @Test
  void whatIsWrongIsRefusedAtStart() {
    for (String property : List.of("redis-throttle.policies.refresh=0s", "redis-throttle.outgoing.github.policy=a b")) {
      Exception error = assertThrows(Exception.class, () -> Application.start(WebApplicationType.NONE, null, List.of(), "redis-throttle.url=redis://127.0.0.1:1", property));
      assertTrue(trace(error).contains(property.substring(0, property.indexOf('='))), () -> trace(error));
    }
    Exception error =
        assertThrows(Exception.class, () -> Application.start(WebApplicationType.NONE, null, List.of(Nothing.class), "redis-throttle.url=redis://127.0.0.1:1"));
    assertTrue(trace(error).contains("\"nothing\" is no name of limits"), () -> trace(error));
  }

  private static String trace(Throwable error) {
    StringBuilder trace = new StringBuilder();
    for (Throwable at = error; at != null; at = at.getCause()) {
      trace.append(at).append('\n');
    }
    return trace.toString();
  }
}
