package io.github.redisthrottle.spring.outgoing;

import feign.RequestInterceptor;
import feign.RequestTemplate;
import java.util.function.Function;

/** Requests of OpenFeign keep to limits, repeated ones included: give it to a client as a bean of its configuration. */
public final class LimitedFeign implements RequestInterceptor {
  private final Function<? super RequestTemplate, OutgoingLimit> limit;

  /** Limits all requests together. */
  public LimitedFeign(OutgoingLimit limit) {
    this(request -> limit);
  }

  /** Limits requests by what they are: {@code request -> limits.get("github").of(user(request))}. */
  public LimitedFeign(Function<? super RequestTemplate, OutgoingLimit> limit) {
    this.limit = limit;
  }

  @Override
  public void apply(RequestTemplate request) {
    limit.apply(request).take();
  }
}
