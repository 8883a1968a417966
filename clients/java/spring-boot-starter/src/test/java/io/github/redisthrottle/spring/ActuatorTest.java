package io.github.redisthrottle.spring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.github.redisthrottle.Limit;
import io.github.redisthrottle.LimitedException;
import io.github.redisthrottle.Limiter;
import io.github.redisthrottle.MistakeException;
import io.github.redisthrottle.OutageException;
import io.github.redisthrottle.Result;
import io.github.redisthrottle.spring.Application.Reports;
import io.github.redisthrottle.spring.Application.User;
import io.github.redisthrottle.testing.Server;
import io.micrometer.core.instrument.MeterRegistry;
import java.io.IOException;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.springframework.boot.WebApplicationType;

/** Health and metrics. */
class ActuatorTest {
  /** Waits for a count: a caller may have its result a moment before it is counted. */
  private static void awaitCount(int count, Application application, String meter, String... tags) {
    Server.await(
        meter + " " + List.of(tags) + " counts " + count,
        () -> application.bean(MeterRegistry.class).find(meter).tags(tags).counters().stream().mapToDouble(counter -> counter.count()).sum() == count);
  }

  @Test
  void decisionsAreCountedByWhatCameOfThem() {
    try (Server server = Server.start();
        Application application = Application.start(WebApplicationType.NONE, server, List.of())) {
      Reports reports = application.bean(Reports.class);
      User ann = new User("ann", false);
      reports.make(ann);
      reports.make(ann);
      assertThrows(LimitedException.class, () -> reports.make(ann));
      awaitCount(2, application, "ratelimit.decisions", "outcome", "allowed", "policy", "pro", "verb", "limit", "by", "server");
      awaitCount(1, application, "ratelimit.decisions", "outcome", "limited", "policy", "pro");

      Limiter limiter = application.bean(Limiter.class);
      Limit trial = Limit.rate(1, Duration.ofHours(1)).named("trial").shadow();
      assertTrue(limiter.limit("trial", trial).allowed());
      assertTrue(limiter.limit("trial", trial).allowed());
      awaitCount(1, application, "ratelimit.shadowed", "policy", "trial");

      server.run("SET", "text", "x");
      assertThrows(MistakeException.class, () -> limiter.limit("text", Limit.rate(1, Duration.ofHours(1))));
      awaitCount(1, application, "ratelimit.decisions", "outcome", "error");
      server.kill();
      assertThrows(OutageException.class, () -> limiter.limit("ann", trial));
      awaitCount(1, application, "ratelimit.decisions", "outcome", "outage");
      Server.await(
          "seven calls are timed",
          () -> application.bean(MeterRegistry.class).find("ratelimit.decision.duration").tag("verb", "limit").timers().stream().mapToLong(timer -> timer.count()).sum() == 7);
      String tags = application.bean(MeterRegistry.class).getMeters().toString();
      assertFalse(tags.contains("ann"), "no key is in a tag");
    }
  }

  @Test
  void healthIsDownAlsoWhileThisProcessDecides() {
    try (Server server = Server.start();
        Application application = Application.start(WebApplicationType.SERVLET, server, List.of(), "redis-throttle.local.processes=2", "redis-throttle.timeout=5s")) {
      assertEquals(200, application.get("/actuator/health").statusCode());
      server.kill();
      assertEquals(Result.By.LOCAL, application.bean(Limiter.class).limit("k", Limit.rate(4, Duration.ofHours(1))).by());
      HttpResponse<String> health = application.get("/actuator/health");
      assertEquals(503, health.statusCode());
      assertTrue(health.body().contains("out of reach"), health.body());
    }
  }

  @Test
  void healthIsLeftOutWhereItIsSwitchedOff() {
    try (Server server = Server.start();
        Application application = Application.start(WebApplicationType.SERVLET, server, List.of(), "management.health.redis-throttle.enabled=false")) {
      HttpResponse<String> health = application.get("/actuator/health");
      assertEquals(200, health.statusCode());
      assertFalse(health.body().contains("redisThrottle"), health.body());
    }
  }

  @Test
  void anEndpointListsLimitsAndWhatIsDenied() throws IOException {
    try (Server server = Server.start();
        Application application =
            Application.start(
                WebApplicationType.SERVLET,
                server,
                List.of(),
                "management.endpoints.web.exposure.include=ratelimits",
                "redis-throttle.outgoing.github.limits=RATE 30/m",
                "redis-throttle.routes[0].paths=/open/**",
                "redis-throttle.routes[0].methods=GET",
                "redis-throttle.routes[0].limits=plans.pro")) {
      server.run("CONFIG", "SET", "throttle.top", "10");
      for (String value : List.of("RATE 2/h", "RATE 2/h BURST 2")) { // also while no call comes
        server.run("HSET", "throttle:policies", "plans.pro", value);
        Server.await("the endpoint knows it", () -> application.get("/actuator/ratelimits").body().contains("\"plans.pro\":\"" + value + "\""));
      }
      for (int i = 0; i < 3; i++) {
        application.get("/open/a");
      }
      JsonNode told = new ObjectMapper().readTree(application.get("/actuator/ratelimits").body());
      assertEquals("RATE 2/1h", told.at("/limits/plans.pro").asText(), told::toString);
      assertEquals("/open/**", told.at("/routes/0/paths/0").asText(), told::toString);
      assertEquals("address", told.at("/routes/0/keys/0/key").asText(), told::toString);
      assertEquals("RATE 30/m", told.at("/outgoing/github").asText(), told::toString);
      assertEquals("http:plans.pro:127.0.0.1", told.at("/denied/0/key").asText(), told::toString);
      assertEquals(1, told.at("/denied/0/limited").asInt(), told::toString);
      assertTrue(told.get("shadowed").isEmpty(), told::toString);

      Limit trial = Limit.rate(1, Duration.ofHours(1)).shadow();
      for (int i = 0; i < 3; i++) {
        assertTrue(application.bean(Limiter.class).limit("tried", trial).allowed());
      }
      told = new ObjectMapper().readTree(application.get("/actuator/ratelimits").body());
      assertEquals("tried", told.at("/shadowed/0/key").asText(), told::toString);
      assertEquals(2, told.at("/shadowed/0/limited").asInt(), told::toString);
      assertEquals(1, told.get("denied").size(), told::toString);

      server.kill();
      told = new ObjectMapper().readTree(application.get("/actuator/ratelimits").body());
      assertFalse(told.has("denied") || told.has("shadowed"), told::toString);
      assertTrue(told.has("deniedUnknown") && told.has("shadowedUnknown"), told::toString);
    }
  }
}
