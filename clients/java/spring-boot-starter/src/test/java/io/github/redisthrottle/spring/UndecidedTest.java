package io.github.redisthrottle.spring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redisthrottle.LimitedException;
import io.github.redisthrottle.MistakeException;
import io.github.redisthrottle.OutageException;
import io.github.redisthrottle.OverloadException;
import io.github.redisthrottle.spring.Application.Reports;
import io.github.redisthrottle.spring.Application.User;
import io.github.redisthrottle.testing.Server;
import java.net.http.HttpResponse;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.springframework.boot.WebApplicationType;

/** What becomes of calls of methods that could not be decided. */
class UndecidedTest {
  private static final User ANN = new User("ann", false);

  private static Server server;

  @BeforeAll
  static void start() {
    server = Server.start();
  }

  @AfterAll
  static void stop() {
    server.close();
  }

  private static Application start(Server at, String... properties) {
    return Application.start(WebApplicationType.NONE, at, List.of(), properties);
  }

  @Test
  void inAnOutageAMethodIsCalledOrNot() {
    try (Server other = Server.start();
        Application allows = start(other, "redis-throttle.timeout=200ms");
        Application denies = start(other, "redis-throttle.timeout=200ms", "redis-throttle.outage=deny", "redis-throttle.retry-after=7s");
        Application raises = start(other, "redis-throttle.timeout=200ms", "redis-throttle.outage=raise")) {
      other.pause();
      assertEquals("report 1", allows.bean(Reports.class).make(ANN));
      assertEquals("report 2", allows.bean(Reports.class).later("ann").block());
      assertEquals("report 3", allows.bean(Reports.class).stage("ann").toCompletableFuture().join());

      Reports denied = denies.bean(Reports.class);
      UndecidedException undecided = assertThrows(UndecidedException.class, () -> denied.make(ANN));
      assertEquals(7, undecided.retryAfterSeconds());
      assertInstanceOf(OutageException.class, undecided.getCause());
      assertThrows(UndecidedException.class, () -> denied.later("ann").block());
      assertThrows(UndecidedException.class, () -> denied.several("ann").blockLast());
      assertInstanceOf(
          UndecidedException.class,
          assertThrows(CompletionException.class, () -> denied.stage("ann").toCompletableFuture().join()).getCause());
      assertEquals(0, denied.made());

      Reports raised = raises.bean(Reports.class);
      assertThrows(OutageException.class, () -> raised.make(ANN));
      assertThrows(OutageException.class, () -> raised.later("ann").block());
      assertEquals(0, raised.made());

      other.resume();
      Server.await("calls are limited again", () -> isLimited(raised));
    }
  }

  private static boolean isLimited(Reports reports) {
    try {
      reports.make(ANN);
      return false;
    } catch (LimitedException e) {
      return true;
    } catch (OutageException e) {
      return false;
    }
  }

  @ParameterizedTest
  @EnumSource(
      value = WebApplicationType.class,
      names = {"SERVLET", "REACTIVE"})
  void aControllerAnswersStatus503(WebApplicationType type) {
    try (Server other = Server.start();
        Application denies = Application.start(type, other, List.of(), "redis-throttle.timeout=200ms", "redis-throttle.outage=deny", "redis-throttle.retry-after=7s")) {
      other.pause();
      HttpResponse<String> response = denies.get("/limited", "X-Key", "a");
      assertEquals(503, response.statusCode());
      assertEquals("7", response.headers().firstValue("Retry-After").orElse(""));
      assertEquals("application/problem+json", response.headers().firstValue("Content-Type").orElse(""));
    }
  }

  @Test
  void inAnOverloadOfJedisAMethodIsCalledOrNot() {
    for (String answer : List.of("deny", "allow", "raise")) {
      try (Server other = Server.start();
          Application application =
              start(
                  null,
                  "spring.data.redis.client-type=jedis",
                  "spring.data.redis.port=" + other.port,
                  "spring.data.redis.jedis.pool.max-active=1",
                  "redis-throttle.overload=" + answer)) {
        Reports reports = application.bean(Reports.class);
        reports.upload("mia", 1); // so that it is known what the server has
        other.pause();
        List<CompletableFuture<Throwable>> calls = new ArrayList<>();
        for (int i = 0; i < 2; i++) { // one of them has the connection, and waits for the server
          calls.add(CompletableFuture.supplyAsync(() -> ended(reports)));
        }
        Throwable error = CompletableFuture.anyOf(calls.toArray(CompletableFuture[]::new)).thenApply(Throwable.class::cast).join();
        switch (answer) {
          case "deny" -> assertInstanceOf(OverloadException.class, assertInstanceOf(UndecidedException.class, error).getCause());
          case "raise" -> assertInstanceOf(OverloadException.class, error);
          default -> assertEquals(null, error);
        }
        other.resume();
        CompletableFuture.allOf(calls.toArray(CompletableFuture[]::new)).join();
      }
    }
  }

  private static Throwable ended(Reports reports) {
    try {
      reports.upload("mia", 1);
      return null;
    } catch (RuntimeException e) {
      return e;
    }
  }

  @Test
  void aParameterThatIsNullIsAMistake() {
    try (Application raises = start(server);
        Application denies = start(server, "redis-throttle.mistake=deny");
        Application allows = start(server, "redis-throttle.mistake=allow")) {
      String raised = assertThrows(RuntimeException.class, () -> raises.bean(Reports.class).make(null)).getMessage();
      assertTrue(raised.contains("null"), raised);
      assertThrows(RuntimeException.class, () -> raises.bean(Reports.class).make(new User(null, false)));
      assertThrows(RuntimeException.class, () -> raises.bean(Reports.class).joined(null, "ann"));
      assertThrows(UndecidedException.class, () -> denies.bean(Reports.class).make(null));
      assertThrows(UndecidedException.class, () -> denies.bean(Reports.class).later(null).block());
      assertEquals("report 1", allows.bean(Reports.class).make(null));
    }
  }

  @Test
  void aWrongPasswordIsAMistakeAndOpensNothing() {
    try (Server other = Server.start();
        Application wrong =
            Application.start(
                WebApplicationType.SERVLET,
                null,
                List.of(),
                "redis-throttle.url=redis://app:wrong@127.0.0.1:" + other.port,
                "redis-throttle.routes[0].paths=/open/**",
                "redis-throttle.routes[0].limits=RATE 2/h")) {
      String error = assertThrows(MistakeException.class, () -> wrong.bean(Reports.class).make(ANN)).getMessage();
      assertTrue(error.contains("WRONGPASS"), error);
      assertEquals(500, wrong.get("/open/a").statusCode());
      HttpResponse<String> health = wrong.get("/actuator/health");
      assertEquals(503, health.statusCode());
      assertTrue(health.body().contains("\"MISTAKE\""), health.body());
    }
  }
}
