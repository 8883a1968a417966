package io.github.redisthrottle.spring.reactive;

import io.github.redisthrottle.http.HeaderFields;
import io.github.redisthrottle.spring.Facts;
import io.github.redisthrottle.spring.method.CurrentRequest;
import io.github.redisthrottle.spring.method.Decided;
import io.github.redisthrottle.spring.method.SubscribedRequests;
import io.github.redisthrottle.spring.web.WebLimits;
import org.springframework.web.server.ServerWebExchange;
import reactor.core.publisher.Mono;
import reactor.util.context.ContextView;

/** Finds the request of a WebFlux application in which a method is called. */
public final class ReactiveRequests implements SubscribedRequests {
  private final WebLimits web;

  /** Makes one. */
  public ReactiveRequests(WebLimits web) {
    this.web = web;
  }

  @Override
  public Mono<CurrentRequest> ofContext(ContextView context) {
    if (!(context.getOrDefault(ServerWebExchange.class, null) instanceof ServerWebExchange exchange)) {
      return Mono.just(CurrentRequest.NONE);
    }
    return ExchangeFacts.of(exchange, web).map(facts -> new Current(exchange, facts, web));
  }

  private record Current(ServerWebExchange exchange, Facts facts, WebLimits web) implements CurrentRequest {
    @Override
    public void decided(Decided all) {
      Decided decided = all.apart(facts.names());
      exchange.getAttributes().put(Decided.ATTRIBUTE, decided);
      RateLimitWebFilter.setFields(exchange, HeaderFields.ofInForce(decided.limits(), decided.result(), web.extra()));
    }
  }
}
