package io.github.redisthrottle.spring.outgoing;

import io.github.redisthrottle.spring.reactive.Decisions;
import java.util.function.Function;
import org.springframework.web.reactive.function.client.ClientRequest;
import org.springframework.web.reactive.function.client.ClientResponse;
import org.springframework.web.reactive.function.client.ExchangeFilterFunction;
import org.springframework.web.reactive.function.client.ExchangeFunction;
import reactor.core.publisher.Mono;

/** Requests of a WebClient keep to limits: {@code builder.filter(new LimitedExchanges(limits.get("github")))}. */
public final class LimitedExchanges implements ExchangeFilterFunction {
  private final Function<? super ClientRequest, OutgoingLimit> limit;

  /** Limits all requests together. */
  public LimitedExchanges(OutgoingLimit limit) {
    this(request -> limit);
  }

  /** Limits requests by what they are: {@code request -> limits.get("github").of(user(request))}. */
  public LimitedExchanges(Function<? super ClientRequest, OutgoingLimit> limit) {
    this.limit = limit;
  }

  @Override
  public Mono<ClientResponse> filter(ClientRequest request, ExchangeFunction next) {
    return Decisions.of(() -> limit.apply(request).takeLater()).then(Mono.defer(() -> next.exchange(request)));
  }
}
