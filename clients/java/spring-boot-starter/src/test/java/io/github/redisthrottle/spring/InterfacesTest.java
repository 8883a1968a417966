package io.github.redisthrottle.spring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redisthrottle.LimitedException;
import io.github.redisthrottle.testing.Server;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.slf4j.MDC;
import org.springframework.aop.framework.ProxyFactory;
import org.springframework.boot.WebApplicationType;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.event.EventListener;
import org.springframework.http.client.ClientHttpResponse;
import org.springframework.mock.http.client.MockClientHttpResponse;
import org.springframework.mock.web.MockHttpServletRequest;
import org.springframework.security.authentication.TestingAuthenticationToken;
import org.springframework.security.core.context.SecurityContextHolder;
import org.springframework.security.core.context.SecurityContextImpl;
import org.springframework.web.client.RestClient;
import org.springframework.web.client.support.RestClientAdapter;
import org.springframework.web.context.request.RequestContextHolder;
import org.springframework.web.context.request.ServletRequestAttributes;
import org.springframework.web.service.annotation.GetExchange;
import org.springframework.web.service.invoker.HttpServiceProxyFactory;
import reactor.core.publisher.Mono;

/**
 * Limits of beans that have no class of their own, what answers in place of a denied method, and what its body knows of
 * its caller.
 */
class InterfacesTest {
  private static Server server;
  private static Application application;

  /** An interface whose methods are limited. */
  interface Greeter {
    @RateLimit(key = "#name", limits = "RATE 2/h")
    @GetExchange("/greeting")
    String greet(String name);
  }

  /** Beans. */
  @Configuration(proxyBeanMethods = false)
  static class Beans {
    @Bean
    Greeter lambda() {
      return name -> "hello " + name;
    }

    @Bean
    Greeter proxyOfSpring() {
      ProxyFactory factory = new ProxyFactory();
      factory.addInterface(Greeter.class);
      Greeter target = name -> "hello " + name;
      factory.setTarget(target);
      return (Greeter) factory.getProxy();
    }

    @Bean
    Greeter proxyOfTheJdk() {
      Greeter target = name -> "hello " + name;
      return (Greeter)
          Proxy.newProxyInstance(
              getClass().getClassLoader(),
              new Class<?>[] {Greeter.class},
              (proxy, method, args) -> {
                try {
                  return method.invoke(target, args);
                } catch (InvocationTargetException e) {
                  throw e.getTargetException();
                }
              });
    }

    @Bean
    Greeter httpExchange() {
      RestClient client = RestClient.builder().requestInterceptor((request, body, execution) -> served()).baseUrl("http://127.0.0.1:1").build();
      return HttpServiceProxyFactory.builderFor(RestClientAdapter.create(client))
          .customArgumentResolver((argument, parameter, values) -> true)
          .build()
          .createClient(Greeter.class);
    }

    private static ClientHttpResponse served() {
      return new MockClientHttpResponse("hello".getBytes(StandardCharsets.UTF_8), 200);
    }

    @Bean
    Kitchen kitchen() {
      return new Kitchen();
    }

    @Bean
    Heard heard() {
      return new Heard();
    }
  }

  /** Hears of calls that were denied. */
  static class Heard {
    final List<RateLimitEvent> events = new ArrayList<>();

    @EventListener
    void on(RateLimitEvent event) {
      events.add(event);
    }
  }

  /** Methods with a fallback. */
  static class Kitchen {
    @RateLimit(key = "#dish", limits = "RATE 1/h", name = "cook", fallbackMethod = "leftovers")
    public String cook(String dish) {
      return "fresh " + dish;
    }

    String leftovers(String dish, RuntimeException why) {
      return "old " + dish + ": " + (why instanceof LimitedException);
    }

    @RateLimit(key = "#dish", limits = "RATE 1/h", name = "mono", fallbackMethod = "later")
    public Mono<String> mono(String dish) {
      return Mono.just("fresh " + dish);
    }

    Mono<String> later(String dish) {
      return Mono.just("old " + dish);
    }

    @RateLimit(key = "#dish", limits = "RATE 1/h", name = "stage", fallbackMethod = "ready")
    public CompletableFuture<String> stage(String dish) {
      return CompletableFuture.completedFuture("fresh " + dish);
    }

    CompletableFuture<String> ready(String dish, Exception why) {
      return CompletableFuture.completedFuture("old " + dish);
    }

    @RateLimit(limits = "RATE 100/h", name = "knows")
    public CompletableFuture<String> knows() {
      var signedIn = SecurityContextHolder.getContext().getAuthentication();
      return CompletableFuture.completedFuture(
          MDC.get("trace") + " " + (signedIn == null ? null : signedIn.getName()) + " " + (RequestContextHolder.getRequestAttributes() != null));
    }
  }

  @BeforeAll
  static void start() {
    server = Server.start();
    application = Application.start(WebApplicationType.NONE, server, List.of(Beans.class));
  }

  @AfterAll
  static void stop() {
    application.close();
    server.close();
  }

  @ParameterizedTest
  @ValueSource(strings = {"lambda", "proxyOfSpring", "proxyOfTheJdk", "httpExchange"})
  void aBeanIsLimitedByItsInterface(String bean) {
    Greeter greeter = (Greeter) application.context.getBean(bean);
    assertTrue(greeter.greet(bean).startsWith("hello"));
    assertTrue(greeter.greet(bean).startsWith("hello"));
    assertEquals("method:RATE 2/1h:" + bean, assertThrows(LimitedException.class, () -> greeter.greet(bean)).result().key());
  }

  @Test
  void aFallbackAnswersForAMethodThatIsDenied() {
    Kitchen kitchen = application.bean(Kitchen.class);
    assertEquals(List.of("fresh soup", "old soup: true"), List.of(kitchen.cook("soup"), kitchen.cook("soup")));
    assertEquals(List.of("fresh soup", "old soup"), List.of(kitchen.mono("soup").block(), kitchen.mono("soup").block()));
    assertEquals(List.of("fresh soup", "old soup"), List.of(kitchen.stage("soup").join(), kitchen.stage("soup").join()));
  }

  @Test
  void anEventTellsOfACallThatIsDenied() {
    Heard heard = application.bean(Heard.class);
    application.bean(Kitchen.class).cook("rice");
    assertFalse(heard.events.stream().anyMatch(event -> event.toString().contains("rice")));
    application.bean(Kitchen.class).cook("rice");
    Server.await(
        "the event is published",
        () -> List.copyOf(heard.events).stream().anyMatch(event -> event.result().map(result -> result.key().equals("method:cook:rice")).orElse(false)));
  }

  @Test
  void theBodyOfAFutureKnowsWhatItsCallerDoes() {
    Kitchen kitchen = application.bean(Kitchen.class);
    MDC.put("trace", "t1");
    SecurityContextHolder.setContext(new SecurityContextImpl(new TestingAuthenticationToken("ann", "secret")));
    RequestContextHolder.setRequestAttributes(new ServletRequestAttributes(new MockHttpServletRequest()));
    try {
      assertEquals("t1 ann true", kitchen.knows().join());
    } finally {
      MDC.remove("trace");
      SecurityContextHolder.clearContext();
      RequestContextHolder.resetRequestAttributes();
    }
    assertEquals("null null false", kitchen.knows().join());
    assertNull(MDC.get("trace"));
  }
}
