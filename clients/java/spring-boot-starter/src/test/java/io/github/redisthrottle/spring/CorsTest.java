package io.github.redisthrottle.spring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redisthrottle.testing.Server;
import java.io.IOException;
import java.net.InetAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Locale;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.web.servlet.FilterRegistrationBean;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.annotation.Order;
import org.springframework.security.web.DefaultSecurityFilterChain;
import org.springframework.security.web.FilterChainProxy;
import org.springframework.security.web.SecurityFilterChain;
import org.springframework.security.web.server.MatcherSecurityWebFilterChain;
import org.springframework.security.web.server.SecurityWebFilterChain;
import org.springframework.security.web.server.WebFilterChainProxy;
import org.springframework.security.web.server.util.matcher.ServerWebExchangeMatcher.MatchResult;
import org.springframework.web.cors.CorsConfiguration;
import org.springframework.web.cors.UrlBasedCorsConfigurationSource;
import org.springframework.web.filter.CorsFilter;
import org.springframework.web.reactive.config.WebFluxConfigurer;
import org.springframework.web.servlet.config.annotation.CorsRegistry;
import org.springframework.web.servlet.config.annotation.WebMvcConfigurer;

/**
 * What a browser asks and reads: preflights are free, and a page may read why its request was denied. HEAD counts as
 * GET does.
 */
class CorsTest {
  private static final String ORIGIN = "Origin: http://web.example";
  private static final String[] ROUTES = {"redis-throttle.routes[0].paths=/open/**", "redis-throttle.routes[0].methods=GET,OPTIONS", "redis-throttle.routes[0].limits=RATE 2/h"};

  /** CORS of Spring MVC. */
  @Configuration(proxyBeanMethods = false)
  static class OfMvc implements WebMvcConfigurer {
    @Override
    public void addCorsMappings(CorsRegistry registry) {
      registry.addMapping("/**").allowedOrigins("http://web.example").exposedHeaders("X-Mine");
    }
  }

  /** CORS of WebFlux. */
  @Configuration(proxyBeanMethods = false)
  static class OfWebFlux implements WebFluxConfigurer {
    @Override
    public void addCorsMappings(org.springframework.web.reactive.config.CorsRegistry registry) {
      registry.addMapping("/**").allowedOrigins("http://web.example").exposedHeaders("X-Mine");
    }
  }

  private static CorsConfiguration configuration() {
    CorsConfiguration configuration = new CorsConfiguration();
    configuration.addAllowedOrigin("http://web.example");
    configuration.addExposedHeader("X-Mine");
    return configuration;
  }

  /** A filter. */
  @Configuration(proxyBeanMethods = false)
  static class OfFilter {
    @Bean
    CorsFilter corsFilter() {
      UrlBasedCorsConfigurationSource source = new UrlBasedCorsConfigurationSource();
      source.registerCorsConfiguration("/**", configuration());
      return new CorsFilter(source);
    }
  }

  /** A filter that is registered in its place. */
  @Configuration(proxyBeanMethods = false)
  static class OfRegisteredFilter {
    @Bean
    FilterRegistrationBean<CorsFilter> cors() {
      FilterRegistrationBean<CorsFilter> bean = new FilterRegistrationBean<>(new OfFilter().corsFilter());
      bean.setOrder(0);
      return bean;
    }
  }

  /** A filter of WebFlux. */
  @Configuration(proxyBeanMethods = false)
  static class OfWebFilter {
    @Bean
    org.springframework.web.cors.reactive.CorsWebFilter corsFilter() {
      return new org.springframework.web.cors.reactive.CorsWebFilter(exchange -> configuration());
    }
  }

  /** Spring Security, whose chain has a filter that is no bean. */
  @Configuration(proxyBeanMethods = false)
  static class OfSecurity {
    @Bean
    SecurityFilterChain chain() {
      return new DefaultSecurityFilterChain(request -> true, new OfFilter().corsFilter());
    }

    @Bean
    FilterRegistrationBean<FilterChainProxy> securityFilter(SecurityFilterChain chain) {
      FilterRegistrationBean<FilterChainProxy> bean = new FilterRegistrationBean<>(new FilterChainProxy(chain));
      bean.setOrder(-100);
      return bean;
    }
  }

  /** Spring Security of WebFlux. */
  @Configuration(proxyBeanMethods = false)
  static class OfReactiveSecurity {
    @Bean
    SecurityWebFilterChain chain() {
      return new MatcherSecurityWebFilterChain(exchange -> MatchResult.match(), List.of(new OfWebFilter().corsFilter()));
    }

    @Bean
    @Order(-100)
    WebFilterChainProxy securityFilter(SecurityWebFilterChain chain) {
      return new WebFilterChainProxy(chain);
    }
  }

  private enum Place {
    MVC(WebApplicationType.SERVLET, OfMvc.class),
    FILTER(WebApplicationType.SERVLET, OfFilter.class),
    REGISTERED_FILTER(WebApplicationType.SERVLET, OfRegisteredFilter.class),
    SECURITY(WebApplicationType.SERVLET, OfSecurity.class),
    WEBFLUX(WebApplicationType.REACTIVE, OfWebFlux.class),
    WEB_FILTER(WebApplicationType.REACTIVE, OfWebFilter.class),
    REACTIVE_SECURITY(WebApplicationType.REACTIVE, OfReactiveSecurity.class);

    final WebApplicationType type;
    final Class<?> beans;

    Place(WebApplicationType type, Class<?> beans) {
      this.type = type;
      this.beans = beans;
    }
  }

  /** Sends a request as a browser does, which the client of the JDK refuses to. Returns the response in lower case. */
  private static String send(Application application, String method, String... fields) {
    int port = Integer.parseInt(application.context.getEnvironment().getProperty("local.server.port"));
    String request = method + " /open/a HTTP/1.1\r\nHost: api.example\r\nConnection: close\r\n" + String.join("\r\n", fields) + (fields.length == 0 ? "\r\n" : "\r\n\r\n");
    try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), port)) {
      socket.setSoTimeout(60_000);
      socket.getOutputStream().write(request.getBytes(StandardCharsets.US_ASCII));
      return new String(socket.getInputStream().readAllBytes(), StandardCharsets.ISO_8859_1).toLowerCase(Locale.ROOT);
    } catch (IOException e) {
      throw new IllegalStateException(e);
    }
  }

  private static int status(String response) {
    return Integer.parseInt(response.substring(9, 12));
  }

  @ParameterizedTest
  @EnumSource(Place.class)
  void preflightsAreFreeAndAPageReadsWhyItWasDenied(Place place) {
    try (Server server = Server.start();
        Application application = Application.start(place.type, server, List.of(place.beans), ROUTES)) {
      for (int i = 0; i < 5; i++) {
        String preflight = send(application, "OPTIONS", ORIGIN, "Access-Control-Request-Method: GET");
        assertEquals(200, status(preflight), preflight);
        assertTrue(preflight.contains("access-control-allow-origin: http://web.example"), preflight);
      }
      for (int i = 0; i < 3; i++) {
        String response = send(application, "GET", ORIGIN);
        assertEquals(i < 2 ? 200 : 429, status(response), response);
        assertEquals(2, response.split("access-control-allow-origin: ", -1).length, response);
        for (String field : List.of("x-mine", "ratelimit, ratelimit-policy, retry-after")) {
          assertTrue(response.lines().anyMatch(line -> line.startsWith("access-control-expose-headers: ") && line.contains(field)), response);
        }
      }
      String same = send(application, "GET");
      assertEquals(429, status(same));
      assertTrue(!same.contains("access-control"), same);
      assertTrue(!send(application, "GET", "Origin: http://other.example").contains("access-control-allow-origin"));
    }
  }

  @ParameterizedTest
  @EnumSource(
      value = WebApplicationType.class,
      names = {"SERVLET", "REACTIVE"})
  void headCountsAsGetDoes(WebApplicationType type) {
    try (Server server = Server.start();
        Application application = Application.start(type, server, List.of(), ROUTES)) {
      assertEquals(200, status(send(application, "GET")));
      assertEquals(200, status(send(application, "HEAD")));
      assertEquals(429, status(send(application, "HEAD")));
      assertEquals(429, status(send(application, "GET")));
    }
  }

  @ParameterizedTest
  @EnumSource(
      value = WebApplicationType.class,
      names = {"SERVLET", "REACTIVE"})
  void preflightsAreChargedIfTheyAreToBe(WebApplicationType type) {
    String[] properties = {ROUTES[0], ROUTES[1], ROUTES[2], "redis-throttle.preflights=true"};
    try (Server server = Server.start();
        Application application = Application.start(type, server, List.of(), properties)) {
      for (int i = 0; i < 3; i++) {
        String preflight = send(application, "OPTIONS", ORIGIN, "Access-Control-Request-Method: GET");
        assertEquals(i == 2, status(preflight) == 429, preflight);
      }
      assertEquals(429, status(send(application, "GET")));
    }
  }
}
