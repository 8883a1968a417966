package io.github.redisthrottle.spring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import io.github.redisthrottle.testing.Server;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.boot.WebApplicationType;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Import;
import org.springframework.core.Ordered;
import org.springframework.core.annotation.Order;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.server.ServerWebExchange;
import org.springframework.web.server.WebFilter;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/** What follows a decision runs in a thread as that of its caller, and keeps nobody else waiting. */
class ThreadsTest {
  /** More than there are threads that compute. */
  private static final int MANY = 2 * Runtime.getRuntime().availableProcessors() + 2;

  private static String[] properties(String client, Server server) {
    return new String[] {
      "redis-throttle.routes[0].paths=/limited/**",
      "redis-throttle.routes[0].limits=RATE 1000000/h",
      "spring.data.redis.client-type=" + client,
      "spring.data.redis.port=" + server.port,
      "server.tomcat.threads.max=" + 2 * MANY,
    };
  }

  /** On Tomcat. */
  @Configuration(proxyBeanMethods = false)
  static class OnTomcat {
    @Bean
    Gate gate() {
      return new Gate();
    }

    @Bean
    Gated gated(Gate gate) {
      return new Gated(gate);
    }

    @Bean
    Pages threads(Gated gated, Gate gate) {
      return new Pages(gated, gate);
    }

    /** Stands before the limits, as a filter of the application does. */
    @Bean
    @Order(Ordered.HIGHEST_PRECEDENCE)
    WebFilter first() {
      return (exchange, chain) -> {
        exchange.getAttributes().put("thread", Thread.currentThread().getName());
        return chain.filter(exchange).contextWrite(context -> context.put("known", "what is known"));
      };
    }
  }

  /** On Reactor Netty. */
  @Configuration(proxyBeanMethods = false)
  @Import({OnTomcat.class, Netty.class})
  static class OnNetty {}

  /** Blocks whoever comes until it opens. */
  static class Gate {
    final AtomicInteger came = new AtomicInteger();
    final CountDownLatch open = new CountDownLatch(1);

    String pass() {
      came.incrementAndGet();
      try {
        return open.await(2, TimeUnit.MINUTES) ? "passed" : "late";
      } catch (InterruptedException e) {
        throw new IllegalStateException(e);
      }
    }
  }

  /** Methods that block at a gate, and others. */
  static class Gated {
    private final Gate gate;

    Gated(Gate gate) {
      this.gate = gate;
    }

    @RateLimit(limits = "RATE 1000000/h", name = "blocks")
    public Mono<String> blocks() {
      return Mono.just(gate.pass());
    }

    @RateLimit(limits = "RATE 1000000/h", name = "stage")
    public CompletableFuture<String> stage() {
      return CompletableFuture.completedFuture(gate.pass());
    }

    @RateLimit(limits = "RATE 1000000/h", name = "quick")
    public Mono<String> quick() {
      return Mono.just(Thread.currentThread().getName());
    }

    @RateLimit(limits = "RATE 1000000/h", name = "quick-stage")
    public CompletableFuture<String> quickStage() {
      return CompletableFuture.completedFuture(Thread.currentThread().getName());
    }
  }

  /** Handlers. */
  @RestController
  static class Pages {
    private final Gated gated;
    private final Gate gate;

    Pages(Gated gated, Gate gate) {
      this.gated = gated;
      this.gate = gate;
    }

    @GetMapping("/limited/thread")
    Mono<String> thread(ServerWebExchange exchange) {
      return Mono.deferContextual(
          context -> Mono.just(exchange.getAttributes().get("thread") + "," + Thread.currentThread().getName() + "," + context.get("known")));
    }

    @GetMapping("/limited/method")
    Mono<String> method(ServerWebExchange exchange) {
      return gated.quick().map(thread -> exchange.getAttributes().get("thread") + "," + thread + ",what is known");
    }

    @GetMapping("/limited/blocks")
    Mono<String> blocks() {
      return Mono.fromSupplier(gate::pass);
    }
  }

  @ParameterizedTest
  @CsvSource({"lettuce,thread", "lettuce,method", "jedis,thread", "jedis,method"})
  void aHandlerOnNettyRunsInTheEventLoopOfItsConnection(String client, String path) {
    try (Server server = Server.start();
        Application application = Application.start(WebApplicationType.REACTIVE, null, List.of(OnNetty.class), properties(client, server))) {
      for (int i = 0; i < MANY; i++) { // each over a connection of its own, in one loop after the other
        String[] threads = application.get("/limited/" + path).body().split(",", -1);
        assertTrue(threads[0].startsWith("reactor-http-"), threads[0]);
        assertEquals(threads[0], threads[1]);
        assertEquals("what is known", threads[2]);
      }
    }
  }

  @ParameterizedTest
  @CsvSource({"lettuce,thread", "lettuce,method", "jedis,thread", "jedis,method"})
  void aHandlerOnTomcatRunsInAThreadOfTomcat(String client, String path) {
    assumeFalse(Netty.isDefault());
    try (Server server = Server.start();
        Application application = Application.start(WebApplicationType.REACTIVE, null, List.of(OnTomcat.class), properties(client, server))) {
      for (int i = 0; i < MANY; i++) {
        String[] threads = application.get("/limited/" + path).body().split(",", -1);
        assertTrue(threads[0].startsWith("http-nio-"), threads[0]);
        assertTrue(threads[1].startsWith("http-nio-"), threads[1]);
        assertEquals("what is known", threads[2]);
      }
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"lettuce", "jedis"})
  void handlersThatBlockOnTomcatKeepNobodyWaiting(String client) {
    assumeFalse(Netty.isDefault());
    ExecutorService callers = Executors.newCachedThreadPool();
    try (Server server = Server.start();
        Application application = Application.start(WebApplicationType.REACTIVE, null, List.of(OnTomcat.class), properties(client, server))) {
      whileManyBlock(
          application,
          () -> CompletableFuture.supplyAsync(() -> application.get("/limited/blocks").statusCode(), callers),
          200,
          () -> assertEquals(200, application.get("/limited/thread").statusCode()));
    } finally {
      callers.shutdown();
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"lettuce", "jedis"})
  void methodsThatBlockWhereTheyMayKeepNobodyWaiting(String client) {
    try (Server server = Server.start();
        Application application = Application.start(WebApplicationType.REACTIVE, null, List.of(OnTomcat.class), properties(client, server))) {
      Gated gated = application.bean(Gated.class);
      whileManyBlock(
          application,
          () -> gated.blocks().subscribeOn(Schedulers.boundedElastic()).toFuture(),
          "passed",
          () -> {
            String thread = gated.quick().subscribeOn(Schedulers.boundedElastic()).toFuture().orTimeout(30, TimeUnit.SECONDS).join();
            assertTrue(thread.startsWith("boundedElastic-"), thread);
          });
    }
  }

  /** The bodies of methods that return futures run in the threads that hand decisions over, or in their caller's. */
  @ParameterizedTest
  @ValueSource(strings = {"lettuce", "jedis"})
  void futuresWhoseMethodsBlockKeepNobodyWaiting(String client) {
    ExecutorService callers = Executors.newCachedThreadPool();
    try (Server server = Server.start();
        Application application = Application.start(WebApplicationType.REACTIVE, null, List.of(OnTomcat.class), properties(client, server))) {
      Gated gated = application.bean(Gated.class);
      whileManyBlock(
          application,
          () -> CompletableFuture.supplyAsync(gated::stage, callers).thenCompose(stage -> stage),
          "passed",
          () -> {
            String thread = gated.quickStage().orTimeout(30, TimeUnit.SECONDS).join();
            assertTrue(thread.startsWith("throttle-") || thread.equals(Thread.currentThread().getName()), thread);
            assertEquals(200, application.get("/limited/thread").statusCode());
          });
    } finally {
      callers.shutdown();
    }
  }

  /** Has many block at the gate, and checks something meanwhile, and what they get when it opens. */
  private static <T> void whileManyBlock(Application application, Supplier<CompletableFuture<T>> caller, T gets, Runnable check) {
    Gate gate = application.bean(Gate.class);
    List<CompletableFuture<T>> blocked = new ArrayList<>();
    try {
      for (int i = 0; i < MANY; i++) {
        blocked.add(caller.get());
      }
      Server.await("all are decided, though those before them block", () -> gate.came.get() == MANY);
      check.run();
    } finally {
      gate.open.countDown();
    }
    blocked.forEach(one -> assertEquals(gets, one.join()));
  }
}
