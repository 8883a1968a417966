package io.github.redisthrottle.spring.gateway;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redisthrottle.Limit;
import io.github.redisthrottle.Limiter;
import io.github.redisthrottle.spring.RateLimit;
import io.github.redisthrottle.spring.outgoing.OutgoingLimits;
import io.github.redisthrottle.testing.Server;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;
import reactor.core.publisher.Mono;
import redis.clients.jedis.Jedis;

/**
 * A client that closes its connection cancels the publisher of a controller. Reactor Netty notices, and Tomcat does
 * not.
 */
class DisconnectTest {
  private static final Limit HOURLY = Limit.rate(1, Duration.ofHours(1));

  /** A controller whose answer waits for a limit. */
  @RestController
  static class Waiting {
    static final AtomicInteger CANCELLED = new AtomicInteger();
    static final AtomicInteger SERVED = new AtomicInteger();

    private final OutgoingLimits limits;

    Waiting(OutgoingLimits limits) {
      this.limits = limits;
    }

    @GetMapping("/waiting")
    @RateLimit(limits = "RATE 100/s", name = "waiting")
    public Mono<String> waiting() {
      return Mono.fromCompletionStage(() -> limits.get("service").takeLater())
          .then(Mono.fromSupplier(() -> "served " + SERVED.incrementAndGet()))
          .doOnCancel(CANCELLED::incrementAndGet);
    }
  }

  private static void awaitBlocked(Server server, int callers) {
    try (Jedis redis = server.client()) {
      Server.await("so many callers wait", () -> redis.info("clients").contains("blocked_clients:" + callers + "\r"));
    }
  }

  @Test
  void aClientThatLeavesLeavesTheLine() {
    try (Server server = Server.start();
        Gateway application =
            Gateway.start(
                server, List.of(Waiting.class), "redis-throttle.timeout=20s", "redis-throttle.outgoing.service.limits=RATE 1/h", "redis-throttle.outgoing.service.max-wait=2h")) {
      assertEquals("served 1", application.get("/waiting").body());
      URI uri = URI.create("http://127.0.0.1:" + application.context.getEnvironment().getProperty("local.server.port") + "/waiting");
      HttpRequest request = HttpRequest.newBuilder(uri).version(HttpClient.Version.HTTP_1_1).build();
      CompletableFuture<HttpResponse<Void>> page = HttpClient.newHttpClient().sendAsync(request, HttpResponse.BodyHandlers.discarding());
      awaitBlocked(server, 1);
      page.cancel(true);
      awaitBlocked(server, 0);
      Server.await("the publisher is cancelled", () -> Waiting.CANCELLED.get() == 1);
      assertEquals(1, Waiting.SERVED.get());
      Limiter limiter = application.context.getBean(Limiter.class);
      assertEquals(1, limiter.refund("outgoing:service", 1, HOURLY));
      assertTrue(limiter.limit("outgoing:service", HOURLY).allowed(), "the caller that left has taken nothing");
    }
  }
}
