package io.github.redisthrottle.spring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redisthrottle.LimitedException;
import io.github.redisthrottle.spring.Application.Reports;
import io.github.redisthrottle.spring.Application.User;
import io.github.redisthrottle.testing.Server;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.springframework.boot.WebApplicationType;
import org.springframework.cache.CacheManager;
import org.springframework.cache.annotation.Cacheable;
import org.springframework.cache.annotation.EnableCaching;
import org.springframework.cache.concurrent.ConcurrentMapCacheManager;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/** Limits of methods. */
class MethodTest {
  private static Server server;
  private static Application application;
  private static Reports reports;

  @BeforeAll
  static void start() {
    server = Server.start();
    application = Application.start(WebApplicationType.NONE, server, List.of(), "redis-throttle.limits.plans.pro=RATE 2/h");
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

  /** It takes long. */
  static class Exporter {
    private final CompletableFuture<String> export = new CompletableFuture<>();
    private volatile boolean called;

    @RateLimit(limits = "RATE 5/h", name = "export")
    public CompletableFuture<String> export() {
      called = true;
      return export;
    }

    public boolean isCalled() {
      return called;
    }

    public boolean isCancelled() {
      return export.isCancelled();
    }
  }

  @Test
  void aCallerThatCancelsItsFutureCancelsThatOfTheMethod() {
    try (Application exports = Application.start(WebApplicationType.NONE, server, List.of(Exporter.class))) {
      Exporter exporter = exports.bean(Exporter.class);
      CompletableFuture<String> mine = exporter.export();
      Server.await("the method is called", exporter::isCalled);
      assertTrue(mine.cancel(true));
      Server.await("it is cancelled", exporter::isCancelled);
    }
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

  /** A service by its interface, which has the annotation. */
  interface Mailer {
    @RateLimit(key = "#to", limits = "RATE 1/h", name = "mail")
    String send(String to);
  }

  /** It caches what it has sent. */
  static class CachingMailer implements Mailer {
    private int sent;

    @Override
    @Cacheable("mails")
    public String send(String to) {
      sent++;
      return "sent to " + to;
    }

    public int sent() {
      return sent;
    }
  }

  @Configuration(proxyBeanMethods = false)
  @EnableCaching
  static class Caches {
    @Bean
    CacheManager cacheManager() {
      return new ConcurrentMapCacheManager("mails");
    }

    @Bean
    CachingMailer mailer() {
      return new CachingMailer();
    }
  }

  @Test
  void anAnnotationOfAnInterfaceLimitsItsBeansBeforeTheirCache() {
    try (Application caching = Application.start(WebApplicationType.NONE, server, List.of(Caches.class))) {
      Mailer mailer = caching.bean(Mailer.class);
      mailer.send("ann");
      assertThrows(LimitedException.class, () -> mailer.send("ann"), "a call that is limited finds nothing in the cache");
      mailer.send("bob");
      assertEquals(2, caching.bean(CachingMailer.class).sent());
    }
  }

  @Test
  void aCallFromWithinTheSameObjectIsNotLimited() {
    for (int i = 0; i < 5; i++) {
      reports.twice("sam");
    }
    reports.upload("sam", 10);
    assertThrows(LimitedException.class, () -> reports.upload("sam", 1));
  }
}
