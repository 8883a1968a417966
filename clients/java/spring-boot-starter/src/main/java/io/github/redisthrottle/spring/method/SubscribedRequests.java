package io.github.redisthrottle.spring.method;

import reactor.core.publisher.Mono;
import reactor.util.context.ContextView;

/** Finds the request that a subscriber is in. */
public interface SubscribedRequests {
  /** Returns the request of a subscriber. */
  Mono<CurrentRequest> ofContext(ContextView context);
}
