package io.github.redisthrottle.spring;

import io.github.redisthrottle.spring.outgoing.OutgoingLimits;
import io.github.redisthrottle.testing.Server;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.security.Principal;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.http.client.ReactorResourceFactory;
import org.springframework.stereotype.Service;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.RestController;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** An application that was started for real, on a free port. */
final class Application implements AutoCloseable {

  final ConfigurableApplicationContext context;

  private Application(ConfigurableApplicationContext context) {
    this.context = context;
  }

  /**
   * Starts one with properties such as "redis-throttle.outage=deny". Without a server the properties say where Redis
   * is.
   */
  static Application start(WebApplicationType type, @Nullable Server server, List<Class<?>> beans, String... properties) {
    SpringApplication application = new SpringApplication(Beans.class);
    application.addPrimarySources(beans);
    application.setWebApplicationType(type);
    application.setRegisterShutdownHook(false);
    List<String> all = new ArrayList<>(List.of("--server.port=0", "--spring.main.banner-mode=off", "--logging.level.root=warn"));
    all.add("--management.endpoints.web.exposure.include=health,metrics");
    all.add("--management.endpoint.health.show-details=always");
    all.add("--management.health.redis.enabled=false");
    String given = String.join(",", properties);
    if (server != null) {
      all.add("--redis-throttle.url=" + server.url());
    }
    if (!given.contains("redis-throttle.timeout=")) {
      all.add("--redis-throttle.timeout=20s");
    }
    if (!given.contains("redis-throttle.limits.plans.pro=")) {
      all.add("--redis-throttle.limits.plans.pro=RATE 2/h NAME pro");
    }
    for (String property : properties) {
      all.add("--" + property);
    }
    return new Application(application.run(all.toArray(String[]::new)));
  }

  <T> T bean(Class<T> type) {
    return context.getBean(type);
  }

  String url(String path) {
    return "http://127.0.0.1:" + context.getEnvironment().getProperty("local.server.port") + path;
  }

  HttpResponse<String> get(String path, String... headers) {
    return getFrom("127.0.0.1", path, headers);
  }

  /** As {@link #get}, at another address of this machine, which is also that of the client. */
  HttpResponse<String> getFrom(String address, String path, String... headers) {
    HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(url(path).replace("127.0.0.1", address))).timeout(Duration.ofMinutes(1));
    for (int i = 0; i < headers.length; i += 2) {
      request.header(headers[i], headers[i + 1]);
    }
    try {
      // A connection of its own: Reactor Netty may read no more of one whose next request comes early (its issue 4361).
      return HttpClient.newHttpClient().send(request.build(), HttpResponse.BodyHandlers.ofString());
    } catch (IOException | InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  @Override
  public void close() {
    context.close();
  }

  /** What all applications of the tests have. */
  @Configuration(proxyBeanMethods = false)
  @EnableAutoConfiguration
  static class Beans {
    @Bean
    Reports reports() {
      return new Reports();
    }

    @Bean
    Pages pages(Reports reports, OutgoingLimits outgoing) {
      return new Pages(reports, outgoing);
    }

    /** Threads of its own: an application that is closed stops those that all share. */
    @Bean
    ReactorResourceFactory reactorResources() {
      ReactorResourceFactory factory = new ReactorResourceFactory();
      factory.setUseGlobalResources(false);
      factory.setShutdownQuietPeriod(Duration.ZERO);
      return factory;
    }
  }

  record User(String id, boolean admin) {}

  /** A service. */
  @Service
  static class Reports {
    private final AtomicInteger made = new AtomicInteger();

    public int made() {
      return made.get();
    }

    @RateLimit(key = "#user.id", limits = "plans.pro", skip = "#user.admin")
    public String make(User user) {
      return "report " + made.incrementAndGet();
    }

    @RateLimit(key = "#user", limits = "RATE 2/h", name = "mono")
    public Mono<String> later(String user) {
      return Mono.fromSupplier(() -> "report " + made.incrementAndGet());
    }

    @RateLimit(key = "#user", limits = "RATE 2/h", name = "flux")
    public Flux<Integer> several(String user) {
      return Flux.range(0, 3).doOnSubscribe(unused -> made.incrementAndGet());
    }

    @RateLimit(key = "#user", limits = "RATE 2/h", name = "stage")
    public CompletionStage<String> stage(String user) {
      return CompletableFuture.completedFuture("report " + made.incrementAndGet());
    }

    @RateLimit(key = "#user", limits = "RATE 10/h", name = "bytes", cost = "#bytes")
    public void upload(String user, int bytes) {}

    public void twice(String user) {
      upload(user, 10); // not through the proxy
      upload(user, 10);
    }

    @RateLimit(key = "'{' + #org + '}:' + #user", limits = "RATE 2/h", name = "user")
    @RateLimit(key = "'{' + #org + '}'", limits = "RATE 3/h", name = "org")
    public void both(String org, String user) {}

    @RateLimit(key = "T(String).join(':', #org, #user)", limits = "RATE 2/h", name = "joined")
    public void joined(String org, String user) {}

    @RateLimit(key = "#nobody", limits = "RATE 1/h")
    public void forNobody(String nobody) {}
  }

  /** Controllers. */
  @RestController
  static class Pages {
    private final Reports reports;
    private final OutgoingLimits outgoing;

    Pages(Reports reports, OutgoingLimits outgoing) {
      this.reports = reports;
      this.outgoing = outgoing;
    }

    @GetMapping("/open/{page}")
    String open(@PathVariable String page) {
      return page;
    }

    @GetMapping("/both/{page}")
    String both(@PathVariable String page) {
      return page;
    }

    @GetMapping("/who")
    String who(Principal principal) {
      return principal.getName();
    }

    @GetMapping("/report/{user}")
    Mono<String> report(@PathVariable String user) {
      return reports.later(user);
    }

    @GetMapping("/github")
    Mono<String> github() {
      return Mono.fromCompletionStage(() -> outgoing.get("github").takeLater()).thenReturn("sent");
    }

    @RateLimit(limits = "RATE 0/h", name = "skipped", skip = "10.0.0.0/8, 2001:db8::/32, 127.0.0.2")
    @GetMapping("/skipped")
    Mono<Map<String, String>> skipped() {
      return Mono.just(Map.of("page", "served"));
    }

    @RateLimit(key = "header('X-Key')", limits = "plans.pro", name = "page")
    @GetMapping("/limited")
    Mono<Map<String, String>> limited() {
      return Mono.just(Map.of("page", "served"));
    }
  }
}
