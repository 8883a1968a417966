package io.github.redisthrottle.spring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.github.redisthrottle.testing.Server;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.boot.WebApplicationType;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;

/** Routes of Spring MVC whose requests have a virtual thread each. It is skipped where the JVM has none. */
class VirtualThreadsOfSpringTest {
  private static final int REQUESTS = 40;

  /** Says in which thread it was called. */
  @RestController
  static class Named {
    @GetMapping("/limited/thread")
    String thread() {
      return Thread.currentThread().toString();
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"lettuce", "jedis"})
  void requestsInVirtualThreadsTakeWhatThereIs(String client) {
    assumeTrue(Runtime.version().feature() >= 21, "this JVM has no virtual threads");
    ExecutorService callers = Executors.newFixedThreadPool(REQUESTS);
    try (Server server = Server.start();
        Application application =
            Application.start(
                WebApplicationType.SERVLET,
                null,
                List.of(Named.class),
                "spring.threads.virtual.enabled=true",
                "redis-throttle.routes[0].paths=/limited/**",
                "redis-throttle.routes[0].limits=FIXED 15/d",
                "spring.data.redis.client-type=" + client,
                "spring.data.redis.port=" + server.port)) {
      var asked = IntStream.range(0, REQUESTS).mapToObj(i -> CompletableFuture.supplyAsync(() -> application.get("/limited/thread"), callers)).toList();
      var answers = asked.stream().map(CompletableFuture::join).toList();
      Stream<String> threads = answers.stream().filter(answer -> answer.statusCode() == 200).map(answer -> answer.body());
      List<String> served = threads.toList();
      assertEquals(15, served.size());
      assertEquals(REQUESTS - 15, answers.stream().filter(answer -> answer.statusCode() == 429).count());
      assertTrue(served.stream().allMatch(thread -> thread.startsWith("VirtualThread[")), served.toString());
    } finally {
      callers.shutdown();
    }
  }
}
