package io.github.redisthrottle.spring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redisthrottle.LimitedException;
import io.github.redisthrottle.testing.Server;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.boot.WebApplicationType;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Import;
import org.springframework.data.redis.core.StringRedisTemplate;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;
import reactor.core.publisher.Mono;

/** Applications at work, whose handlers compute: a healthy Redis is no outage, and nobody gets past a limit. */
class LoadTest {
  /** The rounds of a flood: SIZE of make test-load. */
  private static final int ROUNDS = Integer.getInteger("load.rounds", 1);

  private static final String[] PROPERTIES = {
    "redis-throttle.timeout=200ms",
    "redis-throttle.routes[0].paths=/free/**",
    "redis-throttle.routes[0].limits=RATE 1000000/h",
    "redis-throttle.routes[1].paths=/tight/**",
    "redis-throttle.routes[1].limits=RATE 100/h NAME tight",
    "server.tomcat.threads.max=50",
    "server.tomcat.accept-count=1000",
  };

  /** Controllers. */
  @Configuration(proxyBeanMethods = false)
  static class Controllers {
    @Bean
    Pages busyPages(Service nested) {
      return new Pages(nested);
    }

    @Bean
    Service nested(StringRedisTemplate redis) {
      return new Service(redis);
    }
  }

  /** As {@link Controllers}, on Reactor Netty in place of Tomcat. */
  @Configuration(proxyBeanMethods = false)
  @Import({Controllers.class, Netty.class})
  static class OnNetty {}

  /** What an application runs on. */
  enum Kind {
    SERVLET(WebApplicationType.SERVLET, Controllers.class),
    TOMCAT(WebApplicationType.REACTIVE, Controllers.class),
    NETTY(WebApplicationType.REACTIVE, OnNetty.class);

    private final WebApplicationType type;
    private final Class<?> controllers;

    Kind(WebApplicationType type, Class<?> controllers) {
      this.type = type;
      this.controllers = controllers;
    }

    Application start(String client, Server server) {
      return Application.start(type, null, List.of(controllers), with(client, server));
    }
  }

  /** Methods that block within others that do not. */
  static class Service {
    private final StringRedisTemplate redis;

    Service(StringRedisTemplate redis) {
      this.redis = redis;
    }

    @RateLimit(limits = "RATE 3/h", name = "inner")
    public String inner() {
      return "inner";
    }

    @RateLimit(limits = "RATE 1000/h", name = "redis")
    public CompletableFuture<String> readsRedis() {
      return CompletableFuture.completedFuture("read " + redis.opsForValue().get("none"));
    }
  }

  /** A method that calls another one, by its proxy. */
  static class Outer {
    private final Service nested;

    Outer(Service nested) {
      this.nested = nested;
    }

    @RateLimit(limits = "RATE 1000/h", name = "outer")
    public CompletableFuture<String> outer() {
      return CompletableFuture.completedFuture(nested.inner());
    }
  }

  /** Handlers. */
  @RestController
  static class Pages {
    private final Service nested;

    Pages(Service nested) {
      this.nested = nested;
    }

    @GetMapping({"/free/work", "/tight/work", "/unlimited/work"})
    Mono<String> work() {
      return Mono.fromSupplier(Flood::work);
    }

    /** Computes nothing, and is answered 10 ms later. */
    @GetMapping({"/free/waits", "/unlimited/waits"})
    Mono<String> waits() {
      return Mono.delay(Duration.ofMillis(10)).thenReturn("waited");
    }

    @GetMapping("/free/blocks")
    String blocks() {
      return nested.inner();
    }
  }

  static int port(Application application) {
    return Integer.parseInt(application.context.getEnvironment().getProperty("local.server.port"));
  }

  /** A few of them, since other tests want the processor, too. */
  @ParameterizedTest
  @CsvSource({"SERVLET,jedis", "TOMCAT,lettuce", "NETTY,lettuce"})
  void aHandlerAtWorkIsNoOutage(Kind kind, String client) {
    try (Server server = Server.start();
        Application application = kind.start(client, server)) {
      assertPassesNoMoreThanTheLimit(Flood.send(port(application), "/tight/work", 200, 20), 200);
    }
  }

  @ParameterizedTest
  @CsvSource({"SERVLET,lettuce", "SERVLET,jedis", "TOMCAT,lettuce", "TOMCAT,jedis", "NETTY,lettuce", "NETTY,jedis"})
  @EnabledIfSystemProperty(named = "load.rounds", matches = "[0-9]+")
  void aHandlerAtWorkFromItsFirstRequestOn(Kind kind, String client) {
    try (Server server = Server.start();
        Application application = kind.start(client, server)) {
      Flood free = Flood.send(port(application), "/free/work", 200 * ROUNDS, 50);
      assertTrue(free.count(200) >= 100 * ROUNDS, free::toString); // the rest is an overload, on a machine that others use
      assertEquals(200 * ROUNDS, free.count(200) + free.count(503), free::toString);
      assertEquals(0, free.undecided(), free::toString);
      Flood unlimited = Flood.send(port(application), "/unlimited/work", 200 * ROUNDS, 50);
      Flood warm = Flood.send(port(application), "/free/work", 200 * ROUNDS, 50);
      Flood tight = Flood.send(port(application), "/tight/work", 400 * ROUNDS, 50);
      System.out.printf("%s on %s, the first requests: %s%nwithout a limit: %s%nwith one: %s%n100 an hour: %s%n", kind, client, free, unlimited, warm, tight);
      assertPassesNoMoreThanTheLimit(tight, 400 * ROUNDS);
      assertTrue(tight.count(429) >= 100 * ROUNDS, tight::toString);
    }
  }

  /** Handlers that keep no thread show what a limit costs, and where what follows it runs. */
  @ParameterizedTest
  @CsvSource({"SERVLET,lettuce", "TOMCAT,lettuce", "TOMCAT,jedis", "NETTY,lettuce", "NETTY,jedis"})
  @EnabledIfSystemProperty(named = "load.rounds", matches = "[0-9]+")
  void handlersThatWaitAreServedTogether(Kind kind, String client) {
    try (Server server = Server.start();
        Application application = kind.start(client, server)) {
      Flood.send(port(application), "/free/waits", 400 * ROUNDS, 50); // the first requests, which load classes
      for (int callers : new int[] {50, 1000}) {
        int requests = Math.max(1000, 2 * callers);
        List<Flood> both = Flood.inTurns(port(application), "/unlimited/waits", "/free/waits", 3 * ROUNDS, requests, callers);
        Flood unlimited = both.get(0);
        Flood free = both.get(1);
        System.out.printf("%s on %s, %d callers of a handler that waits, without a limit: %s%nwith one: %s%n", kind, client, callers, unlimited, free);
        assertEquals(0, free.undecided(), free::toString);
        assertEquals(3 * ROUNDS * requests, free.count(200) + free.count(503), free::toString);
      }
    }
  }

  private static void assertPassesNoMoreThanTheLimit(Flood tight, int requests) {
    assertEquals(0, tight.undecided(), tight::toString);
    assertTrue(tight.count(200) <= 101 + ROUNDS, tight::toString); // one comes back in 36 s
    assertEquals(requests, tight.count(200) + tight.count(429) + tight.count(503), tight::toString);
  }

  /** More than are served in time: who is not decided in time is an overload, which is denied. */
  @ParameterizedTest
  @CsvSource({"SERVLET,lettuce", "SERVLET,jedis", "TOMCAT,lettuce", "TOMCAT,jedis", "NETTY,lettuce", "NETTY,jedis"})
  @EnabledIfSystemProperty(named = "load.rounds", matches = "[0-9]+")
  void aThousandCallersPassNoMoreThanTheLimit(Kind kind, String client) {
    try (Server server = Server.start();
        Application application = kind.start(client, server)) {
      Flood.send(port(application), "/free/work", 200 * ROUNDS, 50); // the first requests, which load classes
      List<Flood> both = Flood.inTurns(port(application), "/unlimited/work", "/free/work", ROUNDS, 1000, 1000);
      Flood unlimited = both.get(0);
      Flood free = both.get(1);
      Flood thousand = Flood.send(port(application), "/tight/work", 1000 * ROUNDS, 1000);
      System.out.printf("%s on %s, a thousand callers, without a limit: %s%nwith one: %s%n100 an hour: %s%n", kind, client, unlimited, free, thousand);
      assertEquals(0, free.undecided(), free::toString);
      assertEquals(1000 * ROUNDS, free.count(200) + free.count(503), free::toString);
      assertPassesNoMoreThanTheLimit(thousand, 1000 * ROUNDS);
    }
  }

  @Test
  @EnabledIfSystemProperty(named = "load.rounds", matches = "[0-9]+")
  void theBodyOfAFutureMayBlockOnLettuce() throws Exception {
    theBodyOfAFutureMayBlock("lettuce");
  }

  static String[] with(String client, Server server) {
    String[] all = Arrays.copyOf(PROPERTIES, PROPERTIES.length + 2);
    all[PROPERTIES.length] = "spring.data.redis.client-type=" + client;
    all[PROPERTIES.length + 1] = "spring.data.redis.port=" + server.port;
    return all;
  }

  /** A thread of Tomcat may block, which knows of no request to answer; an event loop may not. */
  @ParameterizedTest
  @EnumSource(names = {"TOMCAT", "NETTY"})
  void aMethodThatBlocksBehindARouteOfWebFluxHarmsNobody(Kind kind) {
    try (Server server = Server.start();
        Application application = kind.start("lettuce", server)) {
      CompletableFuture<Flood> others = CompletableFuture.supplyAsync(() -> Flood.send(port(application), "/free/work", 60, 6));
      Flood blocking = Flood.send(port(application), "/free/blocks", 8, 8);
      assertEquals(kind == Kind.NETTY || Netty.isDefault() ? Map.of(500, 8) : Map.of(200, 3, 500, 5), blocking.statuses());
      assertTrue(others.join().count(200) >= 30, others.join()::toString);
      assertEquals(0, others.join().undecided());
    }
  }

  @ParameterizedTest
  @ValueSource(strings = "jedis")
  void theBodyOfAFutureMayBlock(String client) throws Exception {
    try (Server server = Server.start();
        Application application = Application.start(WebApplicationType.SERVLET, null, List.of(Controllers.class, Outer.class), with(client, server))) {
      int admitted = 0;
      for (int i = 0; i < 8; i++) {
        try {
          assertEquals("inner", application.bean(Outer.class).outer().get(20, TimeUnit.SECONDS));
          admitted++;
        } catch (ExecutionException e) {
          assertTrue(e.getCause() instanceof LimitedException || e.getCause() instanceof CompletionException, e::toString);
        }
      }
      assertEquals(3, admitted);
      for (int i = 0; i < 8; i++) {
        assertEquals("read null", application.bean(Service.class).readsRedis().get(20, TimeUnit.SECONDS));
      }
    }
  }
}
