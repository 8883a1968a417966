package io.github.redisthrottle.spring.outgoing;

import io.github.redisthrottle.Limit;
import io.github.redisthrottle.Limiter;
import io.github.redisthrottle.spring.Answers;
import io.github.redisthrottle.spring.NamedLimits;
import io.github.redisthrottle.spring.RateLimitProperties;
import io.github.redisthrottle.spring.Settings;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * The limits of requests to other services, by their names in {@code redis-throttle.outgoing}. Whoever sends the
 * requests gets them by an interceptor:
 *
 * <pre>{@code
 * @Bean
 * RestClient github(RestClient.Builder builder, OutgoingLimits limits) {
 *   return builder.requestInterceptor(new LimitedRequests(limits.get("github"))).build();
 * }
 * }</pre>
 */
public final class OutgoingLimits {
  private final Map<String, OutgoingLimit> named = new TreeMap<>();

  /** Reads them. What is wrong is refused with the name of the property. */
  public OutgoingLimits(Limiter limiter, NamedLimits limits, Answers answers, Map<String, RateLimitProperties.Outgoing> properties) {
    properties.forEach(
        (name, one) -> {
          String property = "redis-throttle.outgoing." + name;
          if (one.limits() == null && one.policy() == null) {
            throw Settings.wrong(property + ".limits", null, "it is missing: the name of limits, or limits such as RATE 30/m");
          }
          List<Limit> some = limits.read(property, one.limits(), one.policy());
          if (one.key() != null && one.key().isBlank()) {
            throw Settings.wrong(property + ".key", one.key(), "it is empty: leave it out for the name");
          }
          if (one.maxWait().isNegative()) {
            throw Settings.wrong(property + ".max-wait", one.maxWait(), "it must be 0, to fail at once, or longer");
          }
          named.put(name, new OutgoingLimit(limiter, answers, "outgoing:" + (one.key() == null ? name : one.key()), some, one.maxWait()));
        });
  }

  /** Returns those of a name. */
  public OutgoingLimit get(String name) {
    OutgoingLimit found = named.get(name);
    if (found == null) {
      throw new IllegalArgumentException(
          "redis-throttle.outgoing has no \"" + name + "\"" + (named.isEmpty() ? ": it is empty" : ", but " + String.join(", ", named.keySet())));
    }
    return found;
  }
}
