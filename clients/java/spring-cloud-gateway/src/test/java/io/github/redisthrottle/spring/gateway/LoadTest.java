package io.github.redisthrottle.spring.gateway;

import static io.github.redisthrottle.spring.gateway.Gateway.field;
import static io.github.redisthrottle.spring.gateway.Gateway.properties;
import static io.github.redisthrottle.spring.gateway.Gateway.route;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redisthrottle.testing.Server;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.net.http.HttpResponse;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.cloud.gateway.filter.GlobalFilter;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.Ordered;
import org.springframework.core.annotation.Order;

/** A gateway at work: a healthy Redis is no outage, and nobody gets past a limit, from the first request on. */
class LoadTest {
  private static final int REQUESTS = 400 * Integer.getInteger("load.rounds", 1);

  /** Computes for 10 ms of the processor with each request, behind the limiter. */
  @Configuration(proxyBeanMethods = false)
  static class Work {
    @Bean
    @Order(Ordered.LOWEST_PRECEDENCE - 1)
    GlobalFilter work() {
      return (exchange, chain) -> {
        ThreadMXBean threads = ManagementFactory.getThreadMXBean();
        long ends = threads.getCurrentThreadCpuTime() + 10_000_000;
        while (threads.getCurrentThreadCpuTime() - ends < 0) {
          Thread.onSpinWait();
        }
        return chain.filter(exchange);
      };
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {50, 1000})
  @EnabledIfSystemProperty(named = "load.rounds", matches = "[0-9]+")
  void aGatewayAtWork(int callers) {
    String[] limited =
        properties(
            List.of("redis-throttle.gateway.replace-redis-rate-limiter=true"),
            route(0, "tight", "RequestRateLimiter", "redis-throttle.limits=RATE 100/h", "key-resolver=#{@userKeyResolver}"));
    int requests = Math.max(REQUESTS, 2 * callers);
    ExecutorService threads = Executors.newFixedThreadPool(callers);
    try (Server server = Server.start();
        Gateway gateway = Gateway.start(server, List.of(Work.class), limited)) {
      List<CompletableFuture<HttpResponse<String>>> sent = new ArrayList<>();
      for (int i = 0; i < requests; i++) {
        sent.add(CompletableFuture.supplyAsync(() -> gateway.get("/tight/a?user=ann"), threads));
      }
      List<HttpResponse<String>> responses = sent.stream().map(CompletableFuture::join).toList();
      List<HttpResponse<String>> served = responses.stream().filter(response -> response.statusCode() == 200).toList();
      assertTrue(served.size() <= 102, () -> served.size() + " are served");
      assertEquals(0, served.stream().filter(response -> field(response, "RateLimit").isEmpty()).count(), "undecided");
      assertTrue(responses.stream().filter(response -> response.statusCode() == 429).count() >= 100);
    } finally {
      threads.shutdown();
    }
  }
}
