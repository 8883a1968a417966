package io.github.redisthrottle.spring.reactive;

import io.github.redisthrottle.http.HeaderFields;
import io.github.redisthrottle.http.Problem;
import io.github.redisthrottle.spring.web.Cors;
import io.github.redisthrottle.spring.web.Decision;
import io.github.redisthrottle.spring.web.Route;
import io.github.redisthrottle.spring.web.Routes;
import io.github.redisthrottle.spring.web.WebLimits;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Optional;
import org.springframework.core.Ordered;
import org.springframework.http.HttpHeaders;
import org.springframework.http.HttpStatusCode;
import org.springframework.http.MediaType;
import org.springframework.http.server.reactive.ServerHttpResponse;
import org.springframework.web.server.ServerWebExchange;
import org.springframework.web.server.WebFilter;
import org.springframework.web.server.WebFilterChain;
import reactor.core.publisher.Mono;

/**
 * Limits requests by {@code redis-throttle.routes}. One stands before the filters of Spring Security, and one behind
 * them.
 */
public final class RateLimitWebFilter implements WebFilter, Ordered {
  private final Routes routes;
  private final WebLimits web;
  private final ReactiveCors cors;
  private final boolean afterSecurity;

  /** Makes one of the two filters. */
  public RateLimitWebFilter(Routes routes, WebLimits web, ReactiveCors cors, boolean afterSecurity) {
    this.cors = cors;
    this.routes = routes;
    this.web = web;
    this.afterSecurity = afterSecurity;
  }

  @Override
  public int getOrder() {
    return afterSecurity ? Routes.AFTER_SECURITY : Routes.BEFORE_SECURITY;
  }

  @Override
  public Mono<Void> filter(ServerWebExchange exchange, WebFilterChain chain) {
    Optional<Route> route =
        routes.match(exchange.getRequest().getMethod().name(), exchange.getRequest().getPath().pathWithinApplication(), afterSecurity);
    Mono<Void> next = chain.filter(exchange);
    Mono<Void> served =
        route.isEmpty() || isFreePreflight(exchange, web)
            ? next
            : decide(route.get(), exchange, web).flatMap(decision -> decision.goesOn() ? next
                : cors.apply(exchange, Mono.defer(() -> refuse(exchange, decision))));
    // Decisions ask for the request, and so do methods with the annotation.
    return afterSecurity ? served : served.contextWrite(context -> context.put(ServerWebExchange.class, exchange));
  }

  /** Decides about a request, and sets the fields of its response. */
  public static Mono<Decision> decide(Route route, ServerWebExchange exchange, WebLimits web) {
    return ExchangeFacts.of(exchange, web)
        .flatMap(facts -> Decisions.of(() -> route.decide(facts)))
        .doOnNext(decision -> setFields(exchange, decision.fields()));
  }

  /** Sends the response of a request that the application does not serve. */
  public static Mono<Void> refuse(ServerWebExchange exchange, Decision decision) {
    ServerHttpResponse response = exchange.getResponse();
    byte[] body = decision.body().getBytes(StandardCharsets.UTF_8);
    response.setStatusCode(HttpStatusCode.valueOf(decision.status()));
    response.getHeaders().setContentType(MediaType.parseMediaType(Problem.MEDIA_TYPE));
    response.getHeaders().setContentLength(body.length);
    return response.writeWith(Mono.fromSupplier(() -> response.bufferFactory().wrap(body)));
  }

  /** Returns whether a request is a preflight, and those are not charged. */
  public static boolean isFreePreflight(ServerWebExchange exchange, WebLimits web) {
    return !web.preflights() && isPreflight(exchange);
  }

  /** Returns whether a request is a preflight. */
  public static boolean isPreflight(ServerWebExchange exchange) {
    HttpHeaders fields = exchange.getRequest().getHeaders();
    String method = exchange.getRequest().getMethod().name();
    return Cors.isPreflight(method, fields.getOrigin(), fields.getFirst("Access-Control-Request-Method"));
  }

  static void setFields(ServerWebExchange exchange, Map<String, String> fields) {
    HttpHeaders headers = exchange.getResponse().getHeaders();
    if (!fields.isEmpty() && exchange.getRequest().getHeaders().getOrigin() != null && headers.getFirst("RateLimit-Policy") == null) {
      exchange
          .getResponse()
          .beforeCommit(
              () -> {
                headers.add(Cors.EXPOSE, Cors.FIELDS); // beside those of the application's CORS, which sets its own
                return Mono.empty();
              });
    }
    fields.forEach((name, value) -> headers.set(name, HeaderFields.merged(name, value, headers.getFirst(name))));
  }
}
