package io.github.redisthrottle.spring.outgoing;

import java.io.IOException;
import java.util.function.Function;
import org.springframework.http.HttpRequest;
import org.springframework.http.client.ClientHttpRequestExecution;
import org.springframework.http.client.ClientHttpRequestInterceptor;
import org.springframework.http.client.ClientHttpResponse;

/**
 * Requests of a RestClient or a RestTemplate keep to limits:
 * {@code builder.requestInterceptor(new LimitedRequests(limits.get("github")))}.
 */
public final class LimitedRequests implements ClientHttpRequestInterceptor {
  private final Function<? super HttpRequest, OutgoingLimit> limit;

  /** Limits all requests together. */
  public LimitedRequests(OutgoingLimit limit) {
    this(request -> limit);
  }

  /** Limits requests by what they are: {@code request -> limits.get("github").of(user(request))}. */
  public LimitedRequests(Function<? super HttpRequest, OutgoingLimit> limit) {
    this.limit = limit;
  }

  @Override
  public ClientHttpResponse intercept(HttpRequest request, byte[] body, ClientHttpRequestExecution execution) throws IOException {
    limit.apply(request).take();
    return execution.execute(request, body);
  }
}
