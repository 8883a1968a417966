package io.github.redisthrottle.spring.gateway;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.net.httpserver.HttpServer;
import io.github.redisthrottle.testing.Server;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.cloud.gateway.filter.ratelimit.KeyResolver;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.http.client.ReactorResourceFactory;
import reactor.core.publisher.Mono;

/** A gateway that was started for real, before a service, with routes as they are written for Spring's RedisRateLimiter and others. */
class GatewayTest {
  private static final HttpClient CLIENT = HttpClient.newHttpClient();
  private static Server server;
  private static HttpServer service;
  private static ConfigurableApplicationContext gateway;

  @Configuration(proxyBeanMethods = false)
  @EnableAutoConfiguration
  static class Beans {
    @Bean
    KeyResolver user() {
      return exchange -> Mono.justOrEmpty(exchange.getRequest().getHeaders().getFirst("X-User"));
    }

    /** Threads of its own: an application that is closed stops those that all share. */
    @Bean
    ReactorResourceFactory reactorResources() {
      ReactorResourceFactory factory = new ReactorResourceFactory();
      factory.setUseGlobalResources(false);
      return factory;
    }
  }

  @BeforeAll
  static void start() throws IOException {
    server = Server.start();
    service = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
    service.createContext(
        "/",
        exchange -> {
          exchange.sendResponseHeaders(200, 6);
          exchange.getResponseBody().write("served".getBytes(java.nio.charset.StandardCharsets.US_ASCII));
          exchange.close();
        });
    service.start();
    gateway =
        gateway(
            route(0, "springs", "RequestRateLimiter", "redis-rate-limiter.replenishRate=1", "redis-rate-limiter.burstCapacity=60", "redis-rate-limiter.requestedTokens=30"),
            route(1, "ours", "RequestRateLimiter", "redis-throttle.limits=RATE 2/h NAME hourly; FIXED 1000/d NAME daily"),
            route(2, "keys", "Throttle", "keys[0].key='{'+header('X-Org')+'}:'+header('X-User')", "keys[0].limits=plans.pro", "keys[1].key='{'+header('X-Org')+'}'", "keys[1].limits=RATE 3/h NAME all"));
  }

  @AfterAll
  static void stop() {
    gateway.close();
    service.stop(0);
    server.close();
  }

  private static List<String> route(int number, String id, String filter, String... args) {
    String route = "--spring.cloud.gateway.server.webflux.routes[" + number + "].";
    List<String> properties =
        new ArrayList<>(
            List.of(
                route + "id=" + id,
                route + "uri=http://127.0.0.1:" + service.getAddress().getPort(),
                route + "predicates[0]=Path=/" + id + "/**",
                route + "filters[0].name=" + filter));
    for (String arg : args) {
      int equals = arg.indexOf('=');
      properties.add(route + "filters[0].args[" + arg.substring(0, equals) + "]" + arg.substring(equals));
    }
    return properties;
  }

  @SafeVarargs
  private static ConfigurableApplicationContext gateway(List<String>... properties) {
    SpringApplication application = new SpringApplication(Beans.class);
    application.setRegisterShutdownHook(false);
    List<String> all =
        new ArrayList<>(
            List.of(
                "--server.port=0",
                "--spring.main.banner-mode=off",
                "--logging.level.root=warn",
                "--redis-throttle.gateway.replace-redis-rate-limiter=true",
                "--redis-throttle.limits.plans.pro=RATE 2/h NAME pro"));
    List<String> given = new ArrayList<>();
    for (List<String> some : properties) {
      given.addAll(some);
    }
    if (!given.toString().contains("--redis-throttle.url")) {
      all.addAll(List.of("--spring.data.redis.port=" + server.port, "--redis-throttle.url=" + server.url(), "--redis-throttle.timeout=20s"));
    }
    all.addAll(given);
    return application.run(all.toArray(String[]::new));
  }

  private static HttpResponse<String> get(ConfigurableApplicationContext at, String path, String... headers) {
    HttpRequest.Builder request = HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + at.getEnvironment().getProperty("local.server.port") + path));
    for (int i = 0; i < headers.length; i += 2) {
      request.header(headers[i], headers[i + 1]);
    }
    try {
      return CLIENT.send(request.build(), HttpResponse.BodyHandlers.ofString());
    } catch (IOException | InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  private static String field(HttpResponse<String> response, String name) {
    return response.headers().firstValue(name).orElse("");
  }

  @Test
  void aRouteOfSpringsLimiterWorksAsItIs() {
    HttpResponse<String> first = get(gateway, "/springs/a", "X-User", "ann");
    assertEquals("served", first.body());
    assertEquals("1 60 30", field(first, "X-RateLimit-Replenish-Rate") + " " + field(first, "X-RateLimit-Burst-Capacity") + " " + field(first, "X-RateLimit-Requested-Tokens"));
    assertEquals("30", field(first, "X-RateLimit-Remaining"));
    assertEquals(200, get(gateway, "/springs/a", "X-User", "ann").statusCode());
    HttpResponse<String> denied = get(gateway, "/springs/a", "X-User", "ann");
    assertEquals(429, denied.statusCode());
    int after = Integer.parseInt(field(denied, "Retry-After"));
    assertTrue(after >= 1 && after <= 30, "Retry-After: " + after);
    assertEquals(200, get(gateway, "/springs/a", "X-User", "bob").statusCode());
    try (var redis = server.client()) {
      assertTrue(redis.exists("gateway:springs:ann"));
      assertTrue(redis.keys("request_rate_limiter*").isEmpty(), "Spring's own limiter was asked");
    }
  }

  @Test
  void aRouteHasAnyPeriodAndSeveralLimits() {
    HttpResponse<String> first = get(gateway, "/ours/a", "X-User", "ann");
    assertEquals("\"hourly\";q=2;w=3600, \"daily\";q=1000;w=86400", field(first, "RateLimit-Policy"));
    assertEquals("", field(first, "X-RateLimit-Replenish-Rate"));
    assertEquals(200, get(gateway, "/ours/a", "X-User", "ann").statusCode());
    assertEquals(429, get(gateway, "/ours/a", "X-User", "ann").statusCode());
  }

  @Test
  void theFilterThrottleHasSeveralKeys() {
    for (int i = 0; i < 2; i++) {
      assertEquals(200, get(gateway, "/keys/a", "X-Org", "acme", "X-User", "ann").statusCode());
    }
    HttpResponse<String> denied = get(gateway, "/keys/a", "X-Org", "acme", "X-User", "ann");
    assertEquals(429, denied.statusCode());
    assertTrue(denied.body().contains("\"violated-policies\": [\"pro\"]"), denied.body());
    assertEquals(200, get(gateway, "/keys/a", "X-Org", "acme", "X-User", "bob").statusCode());
    assertTrue(get(gateway, "/keys/a", "X-Org", "acme", "X-User", "eve").body().contains("[\"all\"]"));
  }

  @Test
  void inAnOutageTheAnswerDecides() {
    try (Server other = Server.start()) {
      List<String> route = route(0, "ours", "RequestRateLimiter", "redis-throttle.limits=RATE 2/h");
      try (ConfigurableApplicationContext allows = gateway(route, outage(other, "allow"));
          ConfigurableApplicationContext denies = gateway(route, outage(other, "deny"))) {
        other.pause();
        HttpResponse<String> allowed = get(allows, "/ours/a", "X-User", "ann");
        assertEquals(200, allowed.statusCode());
        assertEquals("-1", field(allowed, "X-RateLimit-Remaining"));
        HttpResponse<String> denied = get(denies, "/ours/a", "X-User", "ann");
        assertEquals(503, denied.statusCode());
        assertEquals("1", field(denied, "Retry-After"));
      }
    }
  }

  private static List<String> outage(Server other, String answer) {
    return List.of("--spring.data.redis.port=" + other.port, "--redis-throttle.url=" + other.url(), "--redis-throttle.outage=" + answer);
  }

  @Test
  void mistakesAreRefusedAtStart() {
    refused("give either redis-throttle.limits", route(0, "r", "RequestRateLimiter", "redis-rate-limiter.burstCapacity=3"));
    refused("the names are plans.pro", route(0, "r", "RequestRateLimiter", "redis-throttle.limits=plans.por"));
    refused("spring.cloud.gateway.routes[0].filters[0].args.key", route(0, "r", "Throttle", "limits=plans.pro", "key=adress"));
  }

  private static void refused(String what, List<String> route) {
    Exception refused = assertThrows(Exception.class, () -> gateway(route).close());
    Throwable root = refused;
    while (root.getCause() != null && !root.getMessage().contains(what)) {
      root = root.getCause();
    }
    assertTrue(root.getMessage().contains(what), root::toString);
  }
}
