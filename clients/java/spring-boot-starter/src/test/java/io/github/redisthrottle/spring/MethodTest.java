package io.github.redisthrottle.spring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redisthrottle.LimitedException;
import io.github.redisthrottle.spring.Application.Reports;
import io.github.redisthrottle.spring.Application.User;
import io.github.redisthrottle.spring.outgoing.LimitedExchanges;
import io.github.redisthrottle.spring.outgoing.LimitedFeign;
import io.github.redisthrottle.spring.outgoing.LimitedRequests;
import io.github.redisthrottle.spring.outgoing.OutgoingLimits;
import io.github.redisthrottle.testing.Server;
import feign.Feign;
import feign.RequestLine;
import java.util.List;
import java.util.concurrent.CompletionException;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.springframework.boot.WebApplicationType;
import org.springframework.web.client.RestClient;
import org.springframework.web.reactive.function.client.WebClient;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/** Limits of methods, and of requests that the application sends. */
class MethodTest {
  private static Server server;
  private static Application application;
  private static Reports reports;

  @BeforeAll
  static void start() {
    server = Server.start();
    application =
        Application.start(
            WebApplicationType.SERVLET,
            server,
            List.of(),
            "redis-throttle.limits.plans.pro=RATE 2/h",
            "redis-throttle.outgoing.fast.limits=RATE 1/h",
            "redis-throttle.outgoing.patient.limits=RATE 5/s BURST 1",
            "redis-throttle.outgoing.patient.max-wait=30s");
    reports = application.bean(Reports.class);
  }

  @AfterAll
  static void stop() {
    application.close();
    server.close();
  }

  @Test
  void aMethodIsLimitedByWhoCallsIt() {
    reports.make(new User("ann", false));
    reports.make(new User("ann", false));
    LimitedException denied = assertThrows(LimitedException.class, () -> reports.make(new User("ann", false)));
    assertTrue(denied.result().retryAfter().isPresent());
    assertEquals("method:plans.pro:ann", denied.result().key());
    reports.make(new User("bob", false));
    reports.make(new User("ann", true));
  }

  @Test
  void eachSubscriptionIsDecidedBeforeTheMethodIsCalled() {
    int made = reports.made();
    Mono<String> report = reports.later("mia");
    assertEquals(made, reports.made());
    report.block();
    report.block();
    assertThrows(LimitedException.class, report::block);
    assertEquals(made + 2, reports.made());

    assertEquals(List.of(0, 1, 2), reports.several("mia").collectList().block());
    reports.several("mia").blockLast();
    assertThrows(LimitedException.class, () -> reports.several("mia").blockLast());
    assertEquals(made + 4, reports.made());
  }

  @Test
  void aStageFailsWhenItIsDenied() {
    reports.stage("mia").toCompletableFuture().join();
    reports.stage("mia").toCompletableFuture().join();
    CompletionException denied = assertThrows(CompletionException.class, () -> reports.stage("mia").toCompletableFuture().join());
    assertInstanceOf(LimitedException.class, denied.getCause());
  }

  @Test
  void aCallCostsWhatItsArgumentsSay() {
    reports.upload("mia", 7);
    assertThrows(LimitedException.class, () -> reports.upload("mia", 4));
    reports.upload("mia", 3);
  }

  @Test
  void severalAnnotationsAreChargedTogetherOrNotAtAll() {
    reports.both("acme", "ann");
    reports.both("acme", "ann");
    assertThrows(LimitedException.class, () -> reports.both("acme", "ann"));
    reports.both("acme", "bob");
    assertEquals("method:org:{acme}", assertThrows(LimitedException.class, () -> reports.both("acme", "eve")).result().key());
  }

  @Test
  void aKeyThatIsNullIsAMistake() {
    IllegalArgumentException mistake = assertThrows(IllegalArgumentException.class, () -> reports.forNobody(null));
    assertTrue(mistake.getMessage().contains("#nobody"), mistake.getMessage());
    mistake = assertThrows(IllegalArgumentException.class, () -> reports.both(null, "ann"));
    assertTrue(mistake.getMessage().contains("#org"), mistake.getMessage());
  }

  @Test
  void aMethodThatBlocksIsRefusedInAThreadOfReactor() {
    RuntimeException refused =
        assertThrows(RuntimeException.class, () -> Mono.fromRunnable(() -> reports.upload("mia", 0)).subscribeOn(Schedulers.parallel()).block());
    assertTrue(refused.getMessage().contains("Schedulers.boundedElastic()"), refused.getMessage());
  }

  /** A service that OpenFeign calls. */
  interface Pages {
    @RequestLine("GET /open/a")
    String open();
  }

  @Test
  void outgoingRequestsFailFastOrWaitForTheirTurn() {
    OutgoingLimits limits = application.bean(OutgoingLimits.class);
    String url = application.url("/open/a");
    RestClient rest = RestClient.builder().requestInterceptor(new LimitedRequests(limits.get("fast"))).build();
    assertEquals("a", rest.get().uri(url).retrieve().body(String.class));
    assertThrows(LimitedException.class, () -> rest.get().uri(url).retrieve().body(String.class));

    WebClient web = WebClient.builder().filter(new LimitedExchanges(request -> limits.get("fast").of("web"))).build();
    assertEquals("a", web.get().uri(url).retrieve().bodyToMono(String.class).block());
    assertThrows(LimitedException.class, () -> web.get().uri(url).retrieve().bodyToMono(String.class).block());

    Pages feign = Feign.builder().requestInterceptor(new LimitedFeign(limits.get("patient"))).target(Pages.class, application.url(""));
    long began = System.nanoTime();
    for (int i = 0; i < 3; i++) {
      assertEquals("a", feign.open());
    }
    assertTrue(System.nanoTime() - began > 380_000_000L, "three requests at five a second");
  }

  @Test
  void aNameThatDoesNotExistIsRefused() {
    IllegalArgumentException refused = assertThrows(IllegalArgumentException.class, () -> application.bean(OutgoingLimits.class).get("fest"));
    assertEquals("redis-throttle.outgoing has no \"fest\", but fast, patient", refused.getMessage());
  }
}
