package io.github.redisthrottle.spring;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.github.redisthrottle.LimitedException;
import io.github.redisthrottle.spring.Application.Reports;
import io.github.redisthrottle.spring.Application.User;
import io.github.redisthrottle.testing.Server;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.springframework.boot.WebApplicationType;
import reactor.core.publisher.Flux;

/** Many callers at once: as many get through as the limit says. */
class BurstTest {
  private static final int CALLERS = 10_000;

  @ParameterizedTest
  @CsvSource({"lettuce,10000", "jedis,2000"})
  void callersOfAMethod(String client, int callers) {
    try (Server server = Server.start();
        Application application =
            Application.start(
                WebApplicationType.NONE,
                null,
                List.of(),
                "spring.data.redis.client-type=" + client,
                "spring.data.redis.port=" + server.port,
                "redis-throttle.limits.plans.pro=RATE 100/d")) {
      Reports reports = application.bean(Reports.class);
      AtomicInteger denied = new AtomicInteger();
      ExecutorService threads = Executors.newFixedThreadPool(16);
      List<CompletableFuture<Void>> calls = new ArrayList<>();
      for (int i = 0; i < callers; i++) {
        calls.add(CompletableFuture.runAsync(() -> make(reports, denied), threads));
      }
      CompletableFuture.allOf(calls.toArray(CompletableFuture[]::new)).join();
      threads.shutdown();
      assertEquals(100, reports.made());
      assertEquals(callers - 100, denied.get());
    }
  }

  private static void make(Reports reports, AtomicInteger denied) {
    try {
      reports.make(new User("ann", false));
    } catch (LimitedException e) {
      denied.incrementAndGet();
    }
  }

  @Test
  void subscribersAtOnce() {
    try (Server server = Server.start();
        Application application = Application.start(WebApplicationType.REACTIVE, server, List.of())) {
      Reports reports = application.bean(Reports.class);
      List<String> made =
          Flux.range(0, CALLERS)
              .flatMap(i -> reports.later("ann").onErrorReturn(LimitedException.class, "denied"), CALLERS)
              .filter(text -> !text.equals("denied"))
              .collectList()
              .block();
      assertEquals(2, made.size(), made::toString);
      assertEquals(2, reports.made());
    }
  }

  @Test
  void subscribersWhileRedisHangs() {
    try (Server server = Server.start();
        Application application = Application.start(WebApplicationType.NONE, server, List.of(), "redis-throttle.timeout=200ms", "redis-throttle.outage=deny")) {
      Reports reports = application.bean(Reports.class);
      server.pause();
      long denied =
          Flux.range(0, CALLERS)
              .flatMap(i -> reports.later("bob").onErrorReturn(UndecidedException.class, "undecided"), CALLERS)
              .filter("undecided"::equals)
              .count()
              .block();
      assertEquals(CALLERS, denied);
      assertEquals(0, reports.made());
      server.resume();
      Server.await("calls are decided again", () -> isMade(reports));
    }
  }

  private static boolean isMade(Reports reports) {
    return reports.later("eve").onErrorReturn(UndecidedException.class, "undecided").block().startsWith("report");
  }

  @ParameterizedTest
  @CsvSource({"SERVLET,lettuce", "REACTIVE,lettuce", "REACTIVE,jedis"})
  void requestsAtOnce(WebApplicationType type, String client) {
    try (Server server = Server.start();
        Application application =
            Application.start(
                type,
                null,
                List.of(),
                "spring.data.redis.client-type=" + client,
                "spring.data.redis.port=" + server.port,
                "redis-throttle.routes[0].paths=/open/**",
                "redis-throttle.routes[0].limits=RATE 100/d")) {
      HttpRequest request = HttpRequest.newBuilder(URI.create(application.url("/open/a"))).timeout(Duration.ofMinutes(1)).build();
      HttpClient http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
      List<CompletableFuture<HttpResponse<Void>>> sent = new ArrayList<>();
      for (int i = 0; i < 500; i++) {
        sent.add(http.sendAsync(request, HttpResponse.BodyHandlers.discarding()));
      }
      AtomicInteger served = new AtomicInteger();
      sent.forEach(one -> served.addAndGet(one.join().statusCode() == 200 ? 1 : 0));
      assertEquals(100, served.get());
      sent.forEach(one -> assertEquals(true, List.of(200, 429).contains(one.join().statusCode())));
    }
  }
}
