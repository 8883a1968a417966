package io.github.redisthrottle.spring.gateway;

import com.sun.net.httpserver.HttpServer;
import io.github.redisthrottle.testing.Server;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.cloud.gateway.filter.ratelimit.KeyResolver;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.http.client.ReactorResourceFactory;
import reactor.core.publisher.Mono;

/** A gateway that was started for real, on a free port, before a service that answers everything. */
final class Gateway implements AutoCloseable {
  private static final HttpServer SERVICE = service();

  final ConfigurableApplicationContext context;

  private Gateway(ConfigurableApplicationContext context) {
    this.context = context;
  }

  private static HttpServer service() {
    try {
      HttpServer service = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
      service.createContext(
          "/",
          exchange -> {
            exchange.sendResponseHeaders(200, 6);
            exchange.getResponseBody().write("served".getBytes(StandardCharsets.US_ASCII));
            exchange.close();
          });
      service.start();
      return service;
    } catch (IOException e) {
      throw new IllegalStateException(e);
    }
  }

  /** Returns where the service is. */
  static String service(String path) {
    return "http://127.0.0.1:" + SERVICE.getAddress().getPort() + path;
  }

  /** What all gateways of the tests have. */
  @Configuration(proxyBeanMethods = false)
  @EnableAutoConfiguration
  static class Beans {
    @Bean
    KeyResolver userKeyResolver() {
      return exchange -> Mono.justOrEmpty(exchange.getRequest().getQueryParams().getFirst("user"));
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

  /** Starts one whose Redis is a server, with properties such as "redis-throttle.outage=deny". */
  static Gateway start(Server server, List<Class<?>> beans, String... properties) {
    SpringApplication application = new SpringApplication(Beans.class);
    application.addPrimarySources(beans);
    application.setRegisterShutdownHook(false);
    application.setWebApplicationType(WebApplicationType.REACTIVE);
    List<String> all =
        new ArrayList<>(
            List.of(
                "--server.port=0",
                "--spring.main.banner-mode=off",
                "--logging.level.root=warn",
                "--spring.data.redis.port=" + server.port,
                "--service=" + service("")));
    Arrays.stream(properties).forEach(property -> all.add("--" + property));
    return new Gateway(application.run(all.toArray(String[]::new)));
  }

  static Gateway start(Server server, String... properties) {
    return start(server, List.of(), properties);
  }

  /** Returns the properties of a route to the service with one filter, and arguments such as "key=address". */
  static List<String> route(int number, String id, String filter, String... args) {
    String route = "spring.cloud.gateway.server.webflux.routes[" + number + "].";
    List<String> properties =
        new ArrayList<>(
            List.of(route + "id=" + id, route + "uri=" + service(""), route + "predicates[0]=Path=/" + id + "/**", route + "filters[0].name=" + filter));
    for (String arg : args) {
      int equals = arg.indexOf('=');
      properties.add(route + "filters[0].args[" + arg.substring(0, equals) + "]" + arg.substring(equals));
    }
    return properties;
  }

  /** Joins properties. */
  @SafeVarargs
  static String[] properties(List<String>... some) {
    List<String> all = new ArrayList<>();
    for (List<String> one : some) {
      all.addAll(one);
    }
    return all.toArray(String[]::new);
  }

  HttpResponse<String> get(String path, String... headers) {
    URI uri = URI.create("http://127.0.0.1:" + context.getEnvironment().getProperty("local.server.port") + path);
    HttpRequest.Builder request = HttpRequest.newBuilder(uri).timeout(Duration.ofMinutes(1));
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

  /** Returns a field of a response; empty without it. */
  static String field(HttpResponse<String> response, String name) {
    return response.headers().firstValue(name).orElse("");
  }

  @Override
  public void close() {
    context.close();
  }
}
