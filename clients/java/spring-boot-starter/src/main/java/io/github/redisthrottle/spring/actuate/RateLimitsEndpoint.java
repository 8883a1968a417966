package io.github.redisthrottle.spring.actuate;

import io.github.redisthrottle.connection.Command;
import io.github.redisthrottle.connection.Connection;
import io.github.redisthrottle.connection.ErrorReply;
import io.github.redisthrottle.spring.NamedLimits;
import io.github.redisthrottle.spring.PoliciesCustomizer;
import io.github.redisthrottle.spring.RateLimitProperties;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.actuate.endpoint.annotation.Endpoint;
import org.springframework.boot.actuate.endpoint.annotation.ReadOperation;

/**
 * The endpoint ratelimits: which limits there are, and which keys are denied most, or would be by shadows. Keys name
 * people and addresses: expose it to operators alone.
 */
@Endpoint(id = "ratelimits")
public final class RateLimitsEndpoint {
  private static final Command DENIED = new Command(List.of("CL.TOP", "10"), null);
  private static final Command SHADOWED = new Command(List.of("CL.TOP", "10", "SHADOW"), null);

  private final NamedLimits limits;
  private final RateLimitProperties properties;
  private final @Nullable Connection connection; // null without one
  private final @Nullable PoliciesCustomizer policies; // null without it
  private final Duration timeout;

  /** Makes one. {@code connection} and {@code policies} may be null. */
  public RateLimitsEndpoint(NamedLimits limits, RateLimitProperties properties, @Nullable Connection connection, @Nullable PoliciesCustomizer policies) {
    this.limits = limits;
    this.properties = properties;
    this.connection = connection;
    this.policies = policies;
    this.timeout = properties.timeout().plusSeconds(1);
  }

  /**
   * Returns limits by name, the policies in force in their place, the routes, outgoing limits, the keys that are denied
   * most, and those that shadows would have denied most, or why these are not known.
   */
  @ReadOperation
  public Map<String, Object> limits() {
    Map<String, Object> told = new LinkedHashMap<>();
    Map<String, String> named = new TreeMap<>();
    limits.all().forEach((name, some) -> named.put(name, String.join("; ", some.stream().map(String::valueOf).toList())));
    told.put("limits", named);
    told.put("policies", policies == null ? Map.of() : policies.inForce(timeout));
    told.put("routes", properties.routes().stream().map(RateLimitsEndpoint::route).toList());
    Map<String, String> outgoing = new TreeMap<>();
    properties.outgoing().forEach((name, one) -> outgoing.put(name, either(one.limits(), one.policy())));
    told.put("outgoing", outgoing);
    addTop(told, "denied", DENIED);
    addTop(told, "shadowed", SHADOWED);
    return told;
  }

  private static Map<String, Object> route(RateLimitProperties.Route route) {
    Map<String, Object> told = new LinkedHashMap<>();
    told.put("paths", route.paths());
    told.put("methods", route.methods());
    List<RateLimitProperties.Key> keys =
        route.keys().isEmpty() ? List.of(new RateLimitProperties.Key(route.key(), route.limits(), route.policy(), route.name())) : route.keys();
    List<Map<String, String>> some = new ArrayList<>();
    for (RateLimitProperties.Key key : keys) {
      some.add(Map.of("key", key.key() == null ? "address" : key.key(), "limits", either(key.limits(), key.policy())));
    }
    told.put("keys", some);
    return told;
  }

  /** Returns what names limits: one of them does. */
  private static String either(@Nullable String limits, @Nullable String policy) {
    return Objects.requireNonNull(limits == null ? policy : limits);
  }

  /** Returns a row of names and values as a map. */
  private static Object row(Object row) {
    if (!(row instanceof List<?> words)) {
      return row;
    }
    Map<String, Object> fields = new LinkedHashMap<>();
    for (int i = 0; i + 1 < words.size(); i += 2) {
      fields.put(String.valueOf(words.get(i)), words.get(i + 1));
    }
    return fields;
  }

  private void addTop(Map<String, Object> told, String name, Command top) {
    String unknown = name + "Unknown";
    try {
      Object reply = connection == null ? null : connection.send(top).toCompletableFuture().get(timeout.toMillis(), TimeUnit.MILLISECONDS);
      if (reply instanceof List<?> rows) {
        told.put(name, rows.stream().map(RateLimitsEndpoint::row).toList());
      } else {
        told.put(unknown, reply instanceof ErrorReply error ? error.text() : "there is no connection to Redis");
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      told.put(unknown, "interrupted");
    } catch (ExecutionException | TimeoutException e) {
      told.put(unknown, String.valueOf(e.getMessage()));
    }
  }
}
