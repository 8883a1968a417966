package io.github.redisthrottle.spring.gateway;

import io.github.redisthrottle.Call;
import io.github.redisthrottle.Decider;
import io.github.redisthrottle.Limit;
import io.github.redisthrottle.Result;
import io.github.redisthrottle.http.Answer;
import io.github.redisthrottle.http.HeaderFields;
import io.github.redisthrottle.spring.Answers;
import io.github.redisthrottle.spring.NamedLimits;
import io.github.redisthrottle.spring.Settings;
import io.github.redisthrottle.spring.reactive.Decisions;
import io.github.redisthrottle.spring.reactive.ExchangeFacts;
import io.github.redisthrottle.spring.reactive.RateLimitWebFilter;
import io.github.redisthrottle.spring.web.Cors;
import java.time.Duration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import org.springframework.cloud.gateway.event.FilterArgsEvent;
import org.springframework.cloud.gateway.filter.ratelimit.AbstractRateLimiter;
import org.springframework.cloud.gateway.support.ConfigurationService;
import org.springframework.http.HttpStatus;
import org.springframework.web.server.ResponseStatusException;
import org.springframework.web.server.ServerWebExchange;
import reactor.core.publisher.Mono;

/**
 * The rate limiter of the filter RequestRateLimiter. It takes the arguments of Spring's RedisRateLimiter, {@code
 * redis-rate-limiter.replenishRate}, {@code burstCapacity} and {@code requestedTokens}, or else
 * {@code redis-throttle.limits}, the name of limits or limits such as {@code RATE 10/m; FIXED 1000/d}, and
 * {@code redis-throttle.cost}. Its headers have the names that {@code
 * spring.cloud.gateway.server.webflux.redis-rate-limiter} gives them.
 *
 * <p>A route that is made in code gets it by {@code filter.requestRateLimiter().rateLimiter(ThrottleRateLimiter.class,
 * config -> config.setLimits("RATE 10/m"))}.
 */
public final class ThrottleRateLimiter extends AbstractRateLimiter<ThrottleRateLimiter.Config> {
  /** The name of the bean. */
  public static final String NAME = "throttleRateLimiter";

  static final String SPRINGS = "redis-rate-limiter";
  static final String OURS = "redis-throttle";
  private static final String DEFAULT_FILTERS = "defaultFilters";

  private final Decider decider;
  private final NamedLimits named;
  private final Answers answers;
  private final ConfigurationService service;
  private final SpringsSettings springs;
  private final boolean preflights;

  /** Makes one. */
  ThrottleRateLimiter(
      Decider decider, NamedLimits named, Answers answers, ConfigurationService service, SpringsSettings springs, boolean preflights) {
    super(Config.class, SPRINGS, service);
    this.decider = decider;
    this.named = named;
    this.answers = answers;
    this.service = service;
    this.springs = springs;
    this.preflights = preflights;
    springs.config().forEach((route, config) -> getConfig().put(route, Settings.value(SpringsSettings.PREFIX + ".config." + route, config, this::checked)));
  }

  /** The arguments of a route. */
  public static final class Config {
    private @Nullable Long replenishRate;
    private @Nullable Long burstCapacity;
    private @Nullable Long requestedTokens;
    private @Nullable String limits;
    private @Nullable Long cost;
    private volatile @Nullable List<Limit> read;

    /** Returns how many units come back in a second. */
    public @Nullable Long getReplenishRate() {
      return replenishRate;
    }

    /** Sets {@link #getReplenishRate}. */
    public void setReplenishRate(Long replenishRate) {
      this.replenishRate = replenishRate;
    }

    /** Returns how many units there are at most. */
    public @Nullable Long getBurstCapacity() {
      return burstCapacity;
    }

    /** Sets {@link #getBurstCapacity}. */
    public void setBurstCapacity(Long burstCapacity) {
      this.burstCapacity = burstCapacity;
    }

    /** Returns how many units a request costs. */
    public @Nullable Long getRequestedTokens() {
      return requestedTokens;
    }

    /** Sets {@link #getRequestedTokens}. */
    public void setRequestedTokens(Long requestedTokens) {
      this.requestedTokens = requestedTokens;
    }

    /** Returns the name of limits, or limits. */
    public @Nullable String getLimits() {
      return limits;
    }

    /** Sets {@link #getLimits}. */
    public void setLimits(String limits) {
      this.limits = limits;
    }

    /** Returns how many units a request costs. */
    public @Nullable Long getCost() {
      return cost;
    }

    /** Sets {@link #getCost}. */
    public void setCost(Long cost) {
      this.cost = cost;
    }

    private long units() {
      return cost != null ? cost : requestedTokens != null ? requestedTokens : 1;
    }

    private long capacity() {
      return burstCapacity == null ? 1 : burstCapacity;
    }

    private boolean isSprings() {
      return limits == null;
    }
  }

  @Override
  public void onApplicationEvent(FilterArgsEvent event) {
    if (concerns(event.getArgs())) {
      getConfig().put(event.getRouteId(), read(event.getArgs()));
    }
  }

  static boolean concerns(Map<String, ?> args) {
    return args.keySet().stream().anyMatch(key -> key.startsWith(SPRINGS + ".") || key.startsWith(OURS + "."));
  }

  /** Reads the arguments of a filter, and refuses what is wrong. */
  Config read(Map<String, ?> args) {
    Config config = new Config();
    Map<String, Object> properties = new HashMap<>(args);
    service.with(config).name(SPRINGS).normalizedProperties(properties).bind();
    service.with(config).name(OURS).normalizedProperties(properties).bind();
    return checked(config);
  }

  /** Refuses what is wrong, and keeps the limits. */
  private Config checked(Config config) {
    boolean springs = config.replenishRate != null || config.burstCapacity != null || config.requestedTokens != null;
    if (config.limits != null ? springs : config.replenishRate == null) {
      throw new IllegalArgumentException("give either redis-throttle.limits, or redis-rate-limiter.replenishRate and burstCapacity");
    }
    if (config.units() < 1) {
      throw new IllegalArgumentException("a request costs at least 1, not " + config.units());
    }
    config.read = config.limits != null ? named.get(config.limits) : List.of(bucket(config));
    return config;
  }

  private static Limit bucket(Config config) {
    long capacity = config.capacity();
    long replenished = Objects.requireNonNull(config.replenishRate);
    if (replenished < 1 || capacity < 0) {
      throw new IllegalArgumentException("redis-rate-limiter: replenishRate is 1 or more, and burstCapacity 0 or more");
    }
    if (capacity > 0 && config.units() > capacity) {
      throw new IllegalArgumentException(
          "redis-rate-limiter: requestedTokens is " + config.units() + " and burstCapacity " + capacity + ", so no request would ever be let through");
    }
    Duration second = Duration.ofSeconds(1);
    return capacity == 0 ? Limit.rate(0, second) : Limit.rate(replenished, second).burst(capacity);
  }

  /** Returns whether a route has limits: of its own, or those of the default filters. */
  boolean isConfigured(String routeId) {
    return getConfig().containsKey(routeId) || getConfig().containsKey(DEFAULT_FILTERS);
  }

  @Override
  public Mono<Response> isAllowed(String routeId, String id) {
    Config config = getConfig().containsKey(routeId) ? getConfig().get(routeId) : getConfig().get(DEFAULT_FILTERS);
    if (config == null) {
      return Mono.error(new IllegalArgumentException("the filter RequestRateLimiter of route " + routeId + " has no limits: give redis-throttle.limits"));
    }
    List<Limit> limits;
    try {
      List<Limit> read = config.read;
      limits = read == null ? Objects.requireNonNull(checked(config).read) : read; // of a route that was made in code
    } catch (IllegalArgumentException e) {
      return Mono.error(e);
    }
    Call call = Call.limit("gateway:" + routeId + ":" + id, limits).cost(config.units());
    Call asked = limits.size() > 1 ? call.each() : call;
    Function<Set<String>, Mono<Response>> decide =
        names ->
            Decisions.of(() -> decider.decide(asked))
                .map(result -> new Response(result.allowed(), headers(config, HeaderFields.apart(result.inForce(List.of(limits)), names), result)))
                .onErrorResume(error -> undecided(config, error));
    return Mono.deferContextual(
        context -> {
          if (!(context.getOrDefault(ServerWebExchange.class, null) instanceof ServerWebExchange exchange)) { // RateLimitWebFilter has put it there
            return decide.apply(new HashSet<>());
          }
          Mono<Response> decided = decide.apply(ExchangeFacts.names(exchange));
          boolean free = !preflights && RateLimitWebFilter.isPreflight(exchange);
          boolean ofOtherOrigin = exchange.getRequest().getHeaders().getOrigin() != null;
          return free ? Mono.just(new Response(true, Map.of())) : ofOtherOrigin ? decided.map(ThrottleRateLimiter::exposed) : decided;
        });
  }

  /** Lets a page of another origin read the fields of limits. */
  private static Response exposed(Response response) {
    if (!response.getHeaders().containsKey("RateLimit")) {
      return response;
    }
    Map<String, String> headers = new HashMap<>(response.getHeaders());
    headers.put(Cors.EXPOSE, Cors.FIELDS);
    return new Response(response.isAllowed(), headers);
  }

  private Map<String, String> headers(Config config, List<List<Limit>> inForce, Result result) {
    Map<String, String> headers = new HashMap<>();
    if (springs.includeHeaders()) {
      headers.putAll(HeaderFields.ofInForce(inForce, result, HeaderFields.XRateLimit.NONE));
      addSprings(config, result.by() == Result.By.NONE ? -1 : result.remaining(), headers);
    }
    return headers;
  }

  /** Adds the headers of Spring's limiter. Those of a rate a second say nothing of other limits. */
  private void addSprings(Config config, long remaining, Map<String, String> headers) {
    headers.put(springs.remainingHeader(), String.valueOf(remaining));
    if (config.isSprings()) {
      headers.put(springs.replenishRateHeader(), String.valueOf(config.replenishRate));
      headers.put(springs.burstCapacityHeader(), String.valueOf(config.capacity()));
      headers.put(springs.requestedTokensHeader(), String.valueOf(config.units()));
    }
  }

  private Mono<Response> undecided(Config config, Throwable failed) {
    Throwable error = Answers.unwrapped(failed);
    Answer answer = answers.to(error);
    if (answer == Answer.RAISE) {
      return Mono.error(error);
    }
    if (answer == Answer.DENY) { // the filter would make it a 429
      return Mono.deferContextual(
          context -> {
            if (context.getOrDefault(ServerWebExchange.class, null) instanceof ServerWebExchange exchange) { // of RateLimitWebFilter
              exchange.getResponse().getHeaders().set("Retry-After", String.valueOf(answers.retryAfterSeconds()));
            }
            return Mono.error(new ResponseStatusException(HttpStatus.SERVICE_UNAVAILABLE, null, error));
          });
    }
    Map<String, String> headers = new HashMap<>();
    if (springs.includeHeaders()) {
      addSprings(config, -1, headers);
    }
    return Mono.just(new Response(true, headers));
  }
}
