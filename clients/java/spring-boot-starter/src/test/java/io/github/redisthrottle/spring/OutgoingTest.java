package io.github.redisthrottle.spring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.net.httpserver.HttpServer;
import feign.Feign;
import feign.RequestLine;
import feign.RetryableException;
import feign.Retryer;
import io.github.redisthrottle.Limit;
import io.github.redisthrottle.LimitedException;
import io.github.redisthrottle.Limiter;
import io.github.redisthrottle.MistakeException;
import io.github.redisthrottle.spring.outgoing.LimitedExchanges;
import io.github.redisthrottle.spring.outgoing.LimitedFeign;
import io.github.redisthrottle.spring.outgoing.LimitedRequests;
import io.github.redisthrottle.spring.outgoing.OutgoingLimit;
import io.github.redisthrottle.spring.outgoing.OutgoingLimits;
import io.github.redisthrottle.testing.Server;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.springframework.boot.WebApplicationType;
import org.springframework.web.client.RestClient;
import org.springframework.web.client.RestTemplate;
import org.springframework.web.reactive.function.client.WebClient;
import reactor.core.Disposable;
import reactor.core.publisher.Hooks;
import reactor.core.publisher.Mono;
import redis.clients.jedis.Jedis;

/** Requests that the application sends to a service, which counts them. */
class OutgoingTest {
  private static final AtomicInteger SERVED = new AtomicInteger();
  private static final Limit HOURLY = Limit.rate(1, Duration.ofHours(1));

  private static Server server;
  private static HttpServer service;
  private static String url;
  private static Application application;
  private static OutgoingLimits limits;

  @BeforeAll
  static void start() throws IOException {
    server = Server.start();
    service = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
    service.createContext(
        "/",
        exchange -> {
          SERVED.incrementAndGet();
          if (exchange.getRequestURI().getPath().equals("/busy")) {
            exchange.getResponseHeaders().set("Retry-After", "0");
          }
          exchange.sendResponseHeaders(exchange.getRequestURI().getPath().equals("/busy") ? 503 : 200, -1);
          exchange.close();
        });
    service.start();
    url = "http://127.0.0.1:" + service.getAddress().getPort() + "/";
    application =
        Application.start(
            WebApplicationType.NONE,
            server,
            List.of(),
            "redis-throttle.outgoing.hourly.limits=RATE 1/h",
            "redis-throttle.outgoing.three.limits=RATE 3/h",
            "redis-throttle.outgoing.shared.limits=RATE 1/h",
            "redis-throttle.outgoing.shared.key=hourly",
            "redis-throttle.outgoing.patient.limits=RATE 5/s BURST 1",
            "redis-throttle.outgoing.patient.max-wait=30s",
            "redis-throttle.outgoing.long.limits=RATE 1/h",
            "redis-throttle.outgoing.long.max-wait=2h");
    limits = application.bean(OutgoingLimits.class);
  }

  @AfterAll
  static void stop() {
    application.close();
    service.stop(0);
    server.close();
  }

  /** What OpenFeign calls. */
  interface Service {
    @RequestLine("GET /")
    void get();

    @RequestLine("GET /busy")
    void busy();
  }

  /** Asserts that so many requests reach the service while something runs. */
  private static void served(int requests, Runnable work) {
    int before = SERVED.get();
    work.run();
    assertEquals(before + requests, SERVED.get());
  }

  @Test
  void aDeniedRequestIsNotSent() {
    RestClient rest = RestClient.builder().requestInterceptor(new LimitedRequests(limits.get("hourly").of("rest"))).build();
    served(1, () -> assertNotNull(rest.get().uri(url).retrieve().toBodilessEntity()));
    served(0, () -> assertThrows(LimitedException.class, () -> rest.get().uri(url).retrieve().toBodilessEntity()));

    RestTemplate template = new RestTemplate();
    template.setInterceptors(List.of(new LimitedRequests(limits.get("hourly").of("template"))));
    served(1, () -> template.getForObject(url, String.class));
    served(0, () -> assertThrows(LimitedException.class, () -> template.getForObject(url, String.class)));

    WebClient web = WebClient.builder().filter(new LimitedExchanges(limits.get("hourly").of("web"))).build();
    Mono<?> get = web.get().uri(url).retrieve().toBodilessEntity();
    served(1, get::block);
    served(0, () -> assertThrows(LimitedException.class, get::block));

    Service feign = Feign.builder().requestInterceptor(new LimitedFeign(limits.get("hourly").of("feign"))).target(Service.class, url);
    served(1, feign::get);
    served(0, () -> assertThrows(LimitedException.class, feign::get));
  }

  @Test
  void requestsCountForWhatAFunctionSays() {
    AtomicReference<String> user = new AtomicReference<>("ann");
    RestClient rest = RestClient.builder().requestInterceptor(new LimitedRequests(request -> limits.get("hourly").of(request.getMethod() + user.get()))).build();
    WebClient web = WebClient.builder().filter(new LimitedExchanges(request -> limits.get("hourly").of("web" + user.get()))).build();
    Service feign = Feign.builder().requestInterceptor(new LimitedFeign(request -> limits.get("hourly").of(request.url() + user.get()))).target(Service.class, url);
    for (String one : List.of("ann", "bob")) {
      user.set(one);
      served(
          3,
          () -> {
            assertNotNull(rest.get().uri(url).retrieve().toBodilessEntity());
            assertNotNull(web.get().uri(url).retrieve().toBodilessEntity().block());
            feign.get();
          });
      assertThrows(LimitedException.class, () -> rest.get().uri(url).retrieve().toBodilessEntity());
      assertThrows(LimitedException.class, () -> web.get().uri(url).retrieve().toBodilessEntity().block());
      assertThrows(LimitedException.class, feign::get);
    }
    assertThrows(IllegalArgumentException.class, () -> limits.get("hourly").of(""));
  }

  @Test
  void processesWithTheSameKeyShareALimit() {
    limits.get("shared").of("x").take();
    assertThrows(LimitedException.class, () -> limits.get("hourly").of("x").take());
  }

  @Test
  void eachAttemptOfFeignCounts() {
    Service feign = Feign.builder().retryer(new Retryer.Default(1, 1, 3))
        .requestInterceptor(new LimitedFeign(limits.get("three").of("retries"))).target(Service.class, url);
    served(3, () -> assertThrows(RetryableException.class, feign::busy));
    served(0, () -> assertThrows(LimitedException.class, feign::get));
  }

  @Test
  void aRequestWaitsForItsTurn() {
    Service feign = Feign.builder().requestInterceptor(new LimitedFeign(limits.get("patient"))).target(Service.class, url);
    try (Jedis redis = server.client()) {
      long began = redis.time().stream().mapToLong(Long::parseLong).reduce(0, (seconds, us) -> seconds * 1_000_000 + us);
      served(
          3,
          () -> {
            for (int i = 0; i < 3; i++) {
              feign.get();
            }
          });
      long took = redis.time().stream().mapToLong(Long::parseLong).reduce(0, (seconds, us) -> seconds * 1_000_000 + us) - began;
      assertTrue(3 <= 1 + 5 * took / 1e6, "three requests in " + took + " us, at 5/s with a burst of 1");
    }
  }

  @Test
  void withoutTheModuleARequestWaitsByAskingAgain() {
    String[] properties = {"redis-throttle.outgoing.patient.limits=RATE 5/s BURST 1", "redis-throttle.outgoing.patient.max-wait=30s"};
    try (Server plain = Server.plain()) {
      try (Application polls = Application.start(WebApplicationType.NONE, plain, List.of(), properties[0], properties[1], "redis-throttle.poll=100ms")) {
        OutgoingLimit patient = polls.bean(OutgoingLimits.class).get("patient");
        patient.take();
        patient.take();
        patient.takeLater().toCompletableFuture().join();
      }
      try (Application other = Application.start(WebApplicationType.NONE, plain, List.of(), properties)) {
        String mistake = assertThrows(MistakeException.class, () -> other.bean(OutgoingLimits.class).get("patient").take()).getMessage();
        assertTrue(mistake.contains("module"), mistake);
      }
    }
  }

  private static void awaitBlocked(int callers) {
    try (Jedis redis = server.client()) {
      Server.await("so many callers wait", () -> redis.info("clients").contains("blocked_clients:" + callers + "\r"));
    }
  }

  @Test
  void aSubscriberThatCancelsLeavesTheLine() {
    leavesTheLine(application, "sub");
  }

  /** It is decided in other threads than those of its callers. */
  @Test
  void aSubscriberThatCancelsOnJedisInWebFluxLeavesTheLine() {
    String[] properties = {
      "redis-throttle.outgoing.long.limits=RATE 1/h",
      "redis-throttle.outgoing.long.max-wait=2h",
      "spring.data.redis.client-type=jedis",
      "spring.data.redis.port=" + server.port,
    };
    try (Application other = Application.start(WebApplicationType.REACTIVE, null, List.of(), properties)) {
      leavesTheLine(other, "jedis");
    }
  }

  private static void leavesTheLine(Application in, String part) {
    OutgoingLimit hourly = in.bean(OutgoingLimits.class).get("long").of(part);
    AtomicReference<Throwable> dropped = new AtomicReference<>();
    Hooks.onErrorDropped(dropped::set);
    try {
      hourly.take();
      WebClient client = WebClient.builder().filter(new LimitedExchanges(hourly)).build();
      served(
          0,
          () -> {
            Disposable subscriber = client.get().uri(url).retrieve().toBodilessEntity().subscribe();
            awaitBlocked(1);
            subscriber.dispose();
            awaitBlocked(0);
          });
      Limiter limiter = in.bean(Limiter.class);
      String key = "outgoing:long:" + part;
      assertEquals(1, limiter.refund(key, 1, HOURLY));
      assertTrue(limiter.limit(key, HOURLY).allowed(), "nobody else has taken the unit");
    } finally {
      Hooks.resetOnErrorDropped();
    }
    assertEquals(null, dropped.get());
  }

  @Test
  void inAnOutageTheAnswerDecides() {
    for (String answer : List.of("allow", "deny")) {
      try (Server other = Server.start();
          Application out =
              Application.start(
                  WebApplicationType.NONE, other, List.of(), "redis-throttle.timeout=200ms", "redis-throttle.outage=" + answer, "redis-throttle.outgoing.out.limits=RATE 1/h")) {
        OutgoingLimits limits = out.bean(OutgoingLimits.class);
        RestClient rest = RestClient.builder().requestInterceptor(new LimitedRequests(limits.get("out"))).build();
        WebClient web = WebClient.builder().filter(new LimitedExchanges(limits.get("out"))).build();
        other.pause();
        if (answer.equals("allow")) {
          served(1, () -> assertNotNull(rest.get().uri(url).retrieve().toBodilessEntity()));
          served(1, () -> assertNotNull(web.get().uri(url).retrieve().toBodilessEntity().block()));
        } else {
          served(0, () -> assertThrows(UndecidedException.class, () -> rest.get().uri(url).retrieve().toBodilessEntity()));
          served(0, () -> assertThrows(UndecidedException.class, () -> web.get().uri(url).retrieve().toBodilessEntity().block()));
        }
      }
    }
  }

  @Test
  void aNameThatDoesNotExistIsRefused() {
    IllegalArgumentException refused = assertThrows(IllegalArgumentException.class, () -> limits.get("hurly"));
    assertEquals("redis-throttle.outgoing has no \"hurly\", but hourly, long, patient, shared, three", refused.getMessage());
  }
}
