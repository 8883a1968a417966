package io.github.redisthrottle.spring.reactive;

import io.github.redisthrottle.http.Networks;
import io.github.redisthrottle.spring.Facts;
import io.github.redisthrottle.spring.web.WebLimits;
import java.net.InetSocketAddress;
import java.security.Principal;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.jspecify.annotations.Nullable;
import org.springframework.context.ApplicationContext;
import org.springframework.http.server.reactive.ServerHttpRequest;
import org.springframework.web.server.ServerWebExchange;
import org.springframework.web.server.adapter.WebHttpHandlerBuilder;
import reactor.core.publisher.Mono;

/** What expressions know of a request to a WebFlux application. */
public final class ExchangeFacts implements Facts {
  private final ServerWebExchange exchange;
  private final ServerHttpRequest request;
  private final @Nullable String principal;
  private final WebLimits web;

  private ExchangeFacts(ServerWebExchange exchange, @Nullable String principal, WebLimits web) {
    this.exchange = exchange;
    this.request = exchange.getRequest();
    this.principal = principal;
    this.web = web;
  }

  /** Returns those of a request. */
  public static Mono<Facts> of(ServerWebExchange exchange, WebLimits web) {
    return exchange
        .getPrincipal()
        .map(Principal::getName)
        .defaultIfEmpty("")
        .map(name -> new ExchangeFacts(exchange, name.isEmpty() ? null : name, web));
  }

  @Override
  public String getAddress() {
    return web.client(text(request.getRemoteAddress()), request.getLocalAddress() == null, forwarded());
  }

  @Override
  public boolean isFrom(Networks networks) {
    ApplicationContext context = exchange.getApplicationContext();
    if (context != null && context.containsBean(WebHttpHandlerBuilder.FORWARDED_HEADER_TRANSFORMER_BEAN_NAME)) {
      web.warnOfHiddenPeer();
      return false;
    }
    return web.isFrom(networks, text(request.getRemoteAddress()), request.getLocalAddress() == null, forwarded());
  }

  private List<String> forwarded() {
    // Not by get, whose signature differs between versions of Spring.
    List<String> forwarded = new ArrayList<>();
    request
        .getHeaders()
        .forEach(
            (name, values) -> {
              if (name.equalsIgnoreCase("X-Forwarded-For")) {
                forwarded.addAll(values);
              }
            });
    return forwarded;
  }

  private static @Nullable String text(@Nullable InetSocketAddress address) {
    if (address == null) {
      return null;
    }
    return address.getAddress() == null ? address.getHostString() : address.getAddress().getHostAddress();
  }

  @Override
  public @Nullable String getPrincipal() {
    return principal;
  }

  @Override
  public String getMethod() {
    return request.getMethod().name();
  }

  @Override
  public String getPath() {
    return request.getPath().value();
  }

  @Override
  public @Nullable String header(String name) {
    return request.getHeaders().getFirst(name);
  }

  @Override
  public @Nullable String query(String name) {
    return request.getQueryParams().getFirst(name);
  }

  @Override
  public Set<String> names() {
    return names(exchange);
  }

  /** Returns the names that limits of the response have already. */
  @SuppressWarnings("unchecked") // nobody else sets the attribute
  public static Set<String> names(ServerWebExchange exchange) {
    return (Set<String>) exchange.getAttributes().computeIfAbsent(NAMES, name -> new HashSet<String>());
  }
}
