package io.github.redisthrottle.spring.gateway;

import io.github.redisthrottle.spring.RateLimitProperties;
import io.github.redisthrottle.spring.reactive.RateLimitWebFilter;
import io.github.redisthrottle.spring.web.Route;
import io.github.redisthrottle.spring.web.WebLimits;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.springframework.cloud.gateway.filter.GatewayFilter;
import org.springframework.cloud.gateway.filter.factory.AbstractGatewayFilterFactory;

/**
 * The filter Throttle: limits of a route by an expression, or of several keys together. A route may have several of
 * them. Its arguments are those of {@code redis-throttle.routes}.
 */
public final class ThrottleGatewayFilterFactory extends AbstractGatewayFilterFactory<ThrottleGatewayFilterFactory.Config> {
  private final WebLimits web;

  /** Makes one. */
  public ThrottleGatewayFilterFactory(WebLimits web) {
    super(Config.class);
    this.web = web;
  }

  /** The arguments of a filter. */
  public static final class Config {
    private @Nullable String limits;
    private @Nullable String policy;
    private @Nullable String key;
    private @Nullable String name;
    private @Nullable String cost;
    private @Nullable String skip;
    private List<Key> keys = new ArrayList<>();

    /** Returns the name of limits, or limits. */
    public @Nullable String getLimits() {
      return limits;
    }

    /** Sets {@link #getLimits}. */
    public void setLimits(String limits) {
      this.limits = limits;
    }

    /** Returns the policy of the limits. */
    public @Nullable String getPolicy() {
      return policy;
    }

    /** Sets {@link #getPolicy}. */
    public void setPolicy(String policy) {
      this.policy = policy;
    }

    /** Returns an expression for whom a request counts. */
    public @Nullable String getKey() {
      return key;
    }

    /** Sets {@link #getKey}. */
    public void setKey(String key) {
      this.key = key;
    }

    /** Returns what the key in Redis begins with. */
    public @Nullable String getName() {
      return name;
    }

    /** Sets {@link #getName}. */
    public void setName(String name) {
      this.name = name;
    }

    /** Returns an expression for how many units a request costs. */
    public @Nullable String getCost() {
      return cost;
    }

    /** Sets {@link #getCost}. */
    public void setCost(String cost) {
      this.cost = cost;
    }

    /** Returns an expression that is true for requests that are not limited, or the networks of their clients. */
    public @Nullable String getSkip() {
      return skip;
    }

    /** Sets {@link #getSkip}. */
    public void setSkip(String skip) {
      this.skip = skip;
    }

    /** Returns several keys with their limits. */
    public List<Key> getKeys() {
      return keys;
    }

    /** Sets {@link #getKeys}. */
    public void setKeys(List<Key> keys) {
      this.keys = keys;
    }
  }

  /** A key with its limits. */
  public static final class Key {
    private @Nullable String key;
    private @Nullable String limits;
    private @Nullable String policy;
    private @Nullable String name;

    /** Returns an expression for whom a request counts. */
    public @Nullable String getKey() {
      return key;
    }

    /** Sets {@link #getKey}. */
    public void setKey(String key) {
      this.key = key;
    }

    /** Returns the name of limits, or limits. */
    public @Nullable String getLimits() {
      return limits;
    }

    /** Sets {@link #getLimits}. */
    public void setLimits(String limits) {
      this.limits = limits;
    }

    /** Returns the policy of the limits. */
    public @Nullable String getPolicy() {
      return policy;
    }

    /** Sets {@link #getPolicy}. */
    public void setPolicy(String policy) {
      this.policy = policy;
    }

    /** Returns what the key in Redis begins with. */
    public @Nullable String getName() {
      return name;
    }

    /** Sets {@link #getName}. */
    public void setName(String name) {
      this.name = name;
    }
  }

  @Override
  public GatewayFilter apply(Config config) {
    Route route = route("Throttle", config);
    return (exchange, chain) ->
        RateLimitWebFilter.isFreePreflight(exchange, web)
            ? chain.filter(exchange)
            : RateLimitWebFilter.decide(route, exchange, web)
                .flatMap(decision -> decision.goesOn() ? chain.filter(exchange) : RateLimitWebFilter.refuse(exchange, decision));
  }

  /** Reads arguments, and refuses what is wrong. */
  Route route(String property, Config config) {
    List<RateLimitProperties.Key> keys =
        config.getKeys().stream().map(key -> new RateLimitProperties.Key(key.getKey(), key.getLimits(), key.getPolicy(), key.getName())).toList();
    return new Route(
        property,
        new RateLimitProperties.Route(
            config.getName(), List.of("/**"), List.of(), config.getLimits(), config.getPolicy(), config.getKey(), keys,
            config.getCost(), config.getSkip(), null, null, null, null, null),
        web);
  }
}
