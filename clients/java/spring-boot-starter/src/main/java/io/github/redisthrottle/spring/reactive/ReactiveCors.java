package io.github.redisthrottle.spring.reactive;

import io.github.redisthrottle.spring.web.Cors;
import org.springframework.beans.factory.ListableBeanFactory;
import org.springframework.security.web.server.SecurityWebFilterChain;
import org.springframework.util.ClassUtils;
import org.springframework.web.cors.reactive.CorsWebFilter;
import org.springframework.web.reactive.HandlerMapping;
import org.springframework.web.server.ServerWebExchange;
import org.springframework.web.server.WebFilterChain;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/**
 * The application's CORS, for responses of filters that stand before it: a browser shows a page nothing of a response
 * without it. It is that of a CorsWebFilter, also one of Spring Security, or of WebFlux.
 */
public final class ReactiveCors {
  private static final boolean SECURITY =
      ClassUtils.isPresent("org.springframework.security.web.server.SecurityWebFilterChain", ReactiveCors.class.getClassLoader());

  private final ListableBeanFactory beans;

  /** Makes one that asks for the beans when it needs them. */
  public ReactiveCors(ListableBeanFactory beans) {
    this.beans = beans;
  }

  /** Sends a response with the fields of CORS, if the request is of another origin. */
  Mono<Void> apply(ServerWebExchange exchange, Mono<Void> respond) {
    if (exchange.getRequest().getHeaders().getOrigin() == null || isDone(exchange)) {
      return respond;
    }
    WebFilterChain none = answered -> Mono.empty();
    Flux<CorsWebFilter> own = Flux.defer(() -> Flux.fromStream(beans.getBeanProvider(CorsWebFilter.class).orderedStream()));
    Flux<CorsWebFilter> filters = SECURITY ? Security.filters(beans, exchange).concatWith(own) : own;
    Mono<Void> filtered = filters.concatMap(filter -> isDone(exchange) ? Mono.empty() : filter.filter(exchange, none)).then();
    // A mapping sets the fields of its handlers when it is asked for one.
    Flux<HandlerMapping> mappings = Flux.defer(() -> Flux.fromStream(beans.getBeanProvider(HandlerMapping.class).orderedStream()));
    Mono<Object> mapped =
        mappings.concatMap(mapping -> mapping.getHandler(exchange)).next().onErrorComplete(); // such as of a method that no handler takes
    return filtered.then(Mono.defer(() -> isDone(exchange) ? Mono.empty() : mapped)).then(respond);
  }

  private static boolean isDone(ServerWebExchange exchange) {
    return exchange.getResponse().getHeaders().getFirst(Cors.ALLOW_ORIGIN) != null;
  }

  /** Loaded only with Spring Security. */
  private static final class Security {
    static Flux<CorsWebFilter> filters(ListableBeanFactory beans, ServerWebExchange exchange) {
      return Flux.defer(() -> Flux.fromStream(beans.getBeanProvider(SecurityWebFilterChain.class).orderedStream()))
          .filterWhen(chain -> chain.matches(exchange))
          .next()
          .flatMapMany(SecurityWebFilterChain::getWebFilters)
          .ofType(CorsWebFilter.class);
    }
  }
}
