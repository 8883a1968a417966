package io.github.redisthrottle.spring;

import io.github.redisthrottle.Decider;
import io.github.redisthrottle.Guard;
import io.github.redisthrottle.http.Answer;
import io.github.redisthrottle.http.Undecided;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * Properties of redis-throttle. A name that does not exist is refused.
 *
 * @param enabled Whether anything is limited. Without it there is no limiter, and annotations and routes do nothing.
 * @param url Where Redis or Valkey is, such as redis://127.0.0.1:6379. By default the connection factory of Spring Data
 *     Redis says it, of Lettuce or Jedis.
 * @param timeout How long a call waits for the server.
 * @param poll How long the pauses are at most in which calls that wait ask a server without the module, such as 200ms.
 *     By default such a call is a mistake there.
 * @param limits Limits by name, such as "RATE 100/s BURST 200; FIXED 1000000/mo". Each has the policy of its name.
 * @param policies Where numbers are that take the place of those of limits while the application runs.
 * @param routes Limits of requests. The first route whose paths and methods match a request limits it.
 * @param outgoing Limits of requests to other services, by name.
 * @param outage What becomes of a request while Redis is out of reach: allow, deny (status 503) or raise (status 500).
 * @param local How this process decides by its part of the limits while Redis is out of reach, in place of the answer
 *     of outage.
 * @param overload What becomes of a request while this process asks for more than its client carries: allow, deny or
 *     raise.
 * @param mistake What becomes of a request when the set-up is wrong or an expression fails: allow, deny or raise.
 * @param retryAfter Retry-After of status 503, in whole seconds.
 * @param xRateLimit Adds X-RateLimit fields, whose Reset is in "seconds" from now, or "unix" since the epoch.
 * @param preflights Whether preflights are charged: the requests by which browsers ask whether a page may send another
 *     one.
 * @param clients Who the client of a request is.
 * @param gateway The rate limiter of Spring Cloud Gateway.
 */
@ConfigurationProperties(prefix = "redis-throttle", ignoreUnknownFields = false)
public record RateLimitProperties(
    @DefaultValue("true") boolean enabled,
    @Nullable String url,
    @DefaultValue("200ms") Duration timeout,
    @Nullable Duration poll,
    @DefaultValue Map<String, String> limits,
    @DefaultValue Policies policies,
    @DefaultValue List<Route> routes,
    @DefaultValue Map<String, Outgoing> outgoing,
    @DefaultValue("allow") String outage,
    @DefaultValue Local local,
    @DefaultValue("deny") String overload,
    @DefaultValue("raise") String mistake,
    @DefaultValue("1s") Duration retryAfter,
    @Nullable String xRateLimit,
    @DefaultValue("false") boolean preflights,
    @DefaultValue Clients clients,
    @DefaultValue Gateway gateway) {
  private static final int KEYS = 100_000;

  /**
   * Limits of the requests of some paths.
   *
   * @param name What the key in Redis begins with after "http:". By default the name of the limits.
   * @param paths Patterns such as /api/**. By default all paths.
   * @param methods Methods such as POST. By default all.
   * @param limits The name of limits, or limits such as "RATE 5/s". By default those with the name of the policy.
   * @param policy The policy of the limits. By default their name.
   * @param key An expression for whom a request counts. By default the client's address.
   * @param keys Several keys with their limits, in place of limits and key: all are charged or none.
   * @param cost An expression for how many units a request costs. By default 1.
   * @param skip Whose requests are not limited: addresses and networks such as "10.0.0.0/8, 127.0.0.1", or an
   *     expression that is true for them.
   * @param ban For how long the key of a denied request is banned.
   * @param banAfter With how many denials within a time the ban begins, such as "10/1h". By default with the first.
   * @param outage As redis-throttle.outage, for this route.
   * @param overload As redis-throttle.overload, for this route.
   * @param mistake As redis-throttle.mistake, for this route.
   */
  public record Route(
      @Nullable String name,
      @DefaultValue("/**") List<String> paths,
      @DefaultValue List<String> methods,
      @Nullable String limits,
      @Nullable String policy,
      @Nullable String key,
      @DefaultValue List<Key> keys,
      @Nullable String cost,
      @Nullable String skip,
      @Nullable Duration ban,
      @Nullable String banAfter,
      @Nullable String outage,
      @Nullable String overload,
      @Nullable String mistake) {}

  /**
   * A key of a request, with its limits.
   *
   * @param key An expression for whom a request counts. By default the client's address.
   * @param limits The name of limits, or limits such as "RATE 5/s". By default those with the name of the policy.
   * @param policy The policy of the limits. By default their name.
   * @param name What the key in Redis begins with after "http:". By default the name of the limits.
   */
  public record Key(@Nullable String key, @Nullable String limits, @Nullable String policy, @Nullable String name) {}

  /**
   * The policies: limits in a hash in Redis, which take the place of those of the application.
   *
   * @param enabled Whether the hash is read. Without it the limits of the application count.
   * @param hash The key of the hash.
   * @param refresh How old the last reading is at least when a call begins the next one.
   */
  public record Policies(@DefaultValue("true") boolean enabled, @DefaultValue("throttle:policies") String hash, @DefaultValue("1s") Duration refresh) {}

  /**
   * Limits of requests to another service.
   *
   * @param limits The name of limits, or limits such as "RATE 30/m". By default those with the name of the policy.
   * @param policy The policy of the limits. By default their name.
   * @param key What the key in Redis ends with: processes with the same key share the limits. By default the name.
   * @param maxWait How long a request waits for its turn at most. 0 fails at once.
   */
  public record Outgoing(@Nullable String limits, @Nullable String policy, @Nullable String key, @DefaultValue("0s") Duration maxWait) {}

  /**
   * How this process decides while Redis is out of reach.
   *
   * @param processes How many processes share the limits: each decides by its part of them while Redis is out of reach.
   *     By default none does.
   * @param neverMore Whether a process has no unit of a limit that is smaller than the number of processes. By default
   *     each has one, so that all together may exceed such a limit.
   * @param keys How many keys a process remembers. When there are more, those used least recently begin with full
   *     limits.
   */
  public record Local(@Nullable Integer processes, @DefaultValue("false") boolean neverMore, @DefaultValue("100000") int keys) {}

  /**
   * Who the client of a request is.
   *
   * @param ipv6 How many bits of an IPv6 address are the client's, from 1 to 128.
   * @param trusted The proxies whose X-Forwarded-For is believed: addresses and networks, such as 10.1.0.0/24.
   */
  public record Clients(@DefaultValue("64") int ipv6, @Nullable List<String> trusted) {}

  /**
   * The rate limiter of Spring Cloud Gateway (redis-throttle-spring-cloud-gateway).
   *
   * @param replaceRedisRateLimiter Whether routes with the filter RequestRateLimiter and the arguments
   *     redis-rate-limiter.* are limited by redis-throttle in place of Spring's RedisRateLimiter.
   */
  public record Gateway(@DefaultValue("false") boolean replaceRedisRateLimiter) {}

  /** Returns what protects the application from an outage. */
  Guard guard(Decider next) {
    Integer processes = local.processes();
    if (processes == null) {
      if (local.neverMore() || local.keys() != KEYS) {
        throw Settings.wrong("redis-throttle.local.processes", null, "it is missing: how many processes share the limits, such as 4");
      }
      return Guard.of(next, Guard.Policy.FAIL);
    }
    Guard guard = Guard.of(next, Guard.Policy.LOCAL);
    guard = Settings.value("redis-throttle.local.processes", processes, guard::processes);
    guard = Settings.value("redis-throttle.local.keys", local.keys(), guard::keys);
    return local.neverMore() ? guard.neverMore() : guard;
  }

  /** Returns what becomes of calls without a decision. */
  Answers answers() {
    if (retryAfter.isNegative() || retryAfter.toNanosPart() != 0) {
      throw Settings.wrong("redis-throttle.retry-after", retryAfter, "it must be whole seconds");
    }
    Undecided undecided = new Undecided(answer("outage", outage), answer("overload", overload), answer("mistake", mistake));
    return new Answers(undecided, retryAfter.toSeconds());
  }

  private static Answer answer(String option, String word) {
    return Settings.value("redis-throttle." + option, word, one -> Answer.of(option, one));
  }
}
