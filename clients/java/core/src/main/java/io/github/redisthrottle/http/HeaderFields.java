package io.github.redisthrottle.http;

import io.github.redisthrottle.Limit;
import io.github.redisthrottle.Result;
import java.math.BigInteger;
import java.time.Clock;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/**
 * The header fields of a response: RateLimit-Policy and RateLimit of draft-ietf-httpapi-ratelimit-headers-11, and
 * Retry-After. Their names and their form are here and nowhere else. No field tells of a limit on trial.
 */
public final class HeaderFields {
  /** The fields that came before the draft: X-RateLimit-Limit, -Remaining and -Reset. */
  public enum XRateLimit {
    /** None of them. */
    NONE,
    /** The limit is full again in so many seconds. */
    SECONDS,
    /** The limit is full again at this time, in seconds since 1970. */
    UNIX
  }

  private static final String POLICY = "RateLimit-Policy";

  private static final String LIMIT = "RateLimit";

  /** What an integer of a structured field holds. */
  private static final BigInteger LARGEST = BigInteger.valueOf(999_999_999_999_999L);

  private static final Pattern NUMBERED = Pattern.compile("(.*)-([1-9][0-9]{0,8})", Pattern.DOTALL);

  private static final BigInteger SECOND = BigInteger.valueOf(1_000_000_000);

  private HeaderFields() {}

  /**
   * Returns the fields, in order.
   *
   * @param limits the limits of each key of the call, as {@link io.github.redisthrottle.Call#limits} has them
   */
  public static Map<String, String> of(List<List<Limit>> limits, Result result) {
    return of(limits, result, XRateLimit.NONE);
  }

  /** As {@link #of(List, Result)}, with X-RateLimit-*. */
  public static Map<String, String> of(List<List<Limit>> limits, Result result, XRateLimit x) {
    return ofInForce(apart(result.inForce(limits), new HashSet<>()), result, x);
  }

  /** Returns the fields for limits that counted, as {@link Result#inForce} has them. */
  public static Map<String, String> ofInForce(List<List<Limit>> inForce, Result result, XRateLimit x) {
    return of(inForce, result, x, Clock.systemUTC());
  }

  /**
   * Returns limits whose names no other limit of a response has. A name that is taken gets the next number that is
   * free: default-2, limit-3.
   *
   * @param inForce the limits of each key
   * @param taken the names of other limits, to which those of these are added
   */
  public static List<List<Limit>> apart(List<List<Limit>> inForce, Set<String> taken) {
    Set<String> own = new HashSet<>();
    inForce.forEach(some -> IntStream.range(0, some.size()).forEach(rule -> own.add(name(some, rule))));
    List<List<Limit>> apart = new ArrayList<>();
    for (List<Limit> some : inForce) {
      List<Limit> named = new ArrayList<>();
      for (int rule = 0; rule < some.size(); rule++) {
        String called = name(some, rule);
        String name = taken.contains(called) ? free(called, taken, own) : called;
        taken.add(name);
        named.add(name.equals(called) ? some.get(rule) : some.get(rule).named(name));
      }
      apart.add(named);
    }
    return apart;
  }

  private static String free(String name, Set<String> taken, Set<String> own) {
    Matcher numbered = NUMBERED.matcher(name);
    String stem = numbered.matches() ? numbered.group(1) : name;
    int number = numbered.matches() ? Integer.parseInt(numbered.group(2)) : 1;
    String next;
    do {
      number++;
      next = stem + "-" + number;
    } while (taken.contains(next) || own.contains(next));
    return next;
  }

  static Map<String, String> of(List<List<Limit>> inForce, Result result, XRateLimit x, Clock clock) {
    Map<String, String> fields = new LinkedHashMap<>();
    if (result.by() == Result.By.POLICY || result.by() == Result.By.NONE) { // nothing is known of the limits, or there are none
      putRetryAfter(fields, result);
      return fields;
    }
    List<String> policies = new ArrayList<>();
    inForce.forEach(some -> policies.addAll(policy(some)));
    put(fields, POLICY, String.join(", ", policies));
    List<Limit> decided = inForce.get(result.keyIndex());
    boolean hidden = !result.banned() && decided.get(result.rule()).isShadow();
    put(fields, LIMIT, String.join(", ", items(inForce, decided, result, hidden)));
    putRetryAfter(fields, result);
    if (x != XRateLimit.NONE && !hidden) {
      long reset = seconds(result.resetAfter());
      long now = -Math.floorDiv(-clock.millis(), 1000);
      fields.put("X-RateLimit-Limit", String.valueOf(result.limit()));
      fields.put("X-RateLimit-Remaining", String.valueOf(result.remaining()));
      fields.put("X-RateLimit-Reset", String.valueOf(x == XRateLimit.UNIX ? now + reset : reset));
    }
    return fields;
  }

  /** Returns a field that may be there already: those that are lists are joined, so that limits may be nested. */
  public static String merged(String name, String value, @Nullable String there) {
    boolean isList = name.equals(LIMIT) || name.equals(POLICY);
    return isList && there != null && !there.isEmpty() ? there + ", " + value : value;
  }

  /**
   * Returns what a limit is called: its name, or else that of its policy, or default; of several api-1, api-2 or
   * limit-1, limit-2.
   */
  public static String name(List<Limit> limits, int rule) {
    Limit limit = limits.get(rule);
    if (!limit.name().isEmpty()) {
      return limit.name();
    }
    boolean alone = limits.size() == 1;
    String policy = limit.policyName().isEmpty() ? (alone ? "default" : "limit") : limit.policyName();
    return alone ? policy : policy + "-" + (rule + 1);
  }

  /** Returns a duration in whole seconds, rounded up. */
  public static long seconds(Duration duration) {
    return -Math.floorDiv(-duration.toMillis(), 1000);
  }

  private static List<String> items(List<List<Limit>> limits, List<Limit> decided, Result result, boolean hidden) {
    List<String> items = new ArrayList<>();
    if (result.banned()) {
      Duration after = result.retryAfter().orElse(result.resetAfter());
      for (int rule = 0; rule < decided.size(); rule++) {
        if (!decided.get(rule).isShadow()) {
          items.add(item(decided, rule, 0, after));
        }
      }
    } else if (!result.each().isEmpty()) {
      for (Result each : result.each()) {
        List<Limit> some = limits.get(each.keyIndex());
        boolean mine = each.keyIndex() == result.keyIndex() && each.rule() == result.rule();
        if (!some.isEmpty() && !some.get(each.rule()).isShadow()) {
          items.add(item(some, each.rule(), each.remaining(), mine ? result.nextAfter() : each.resetAfter()));
        }
      }
    } else if (!hidden) {
      items.add(item(decided, result.rule(), result.remaining(), result.nextAfter()));
    }
    return items;
  }

  private static List<String> policy(List<Limit> limits) {
    List<String> items = new ArrayList<>();
    for (int rule = 0; rule < limits.size(); rule++) {
      Limit limit = limits.get(rule);
      if (limit.isShadow()) {
        continue;
      }
      BigInteger period = ns(limit.period());
      BigInteger count = BigInteger.valueOf(limit.count());
      BigInteger quota = BigInteger.ZERO;
      BigInteger whole = up(period, SECOND);
      if (limit.count() > 0) { // what comes back while a full limit refills, in whole seconds
        whole = up(period.multiply(BigInteger.valueOf(limit.capacity())), count.multiply(SECOND)).min(LARGEST);
        quota = whole.multiply(count).multiply(SECOND).divide(period).min(LARGEST);
      }
      String unit = limit.unit().isEmpty() ? "" : ";qu=" + quoted(limit.unit());
      items.add(quoted(name(limits, rule)) + ";q=" + quota + unit + ";w=" + whole);
    }
    return items;
  }

  private static String item(List<Limit> limits, int rule, long remaining, Duration after) {
    String left = String.valueOf(Math.min(remaining, LARGEST.longValueExact()));
    return quoted(name(limits, rule)) + ";r=" + left + (after.isZero() ? "" : ";t=" + seconds(after));
  }

  private static void putRetryAfter(Map<String, String> fields, Result result) {
    if (result.limited()) {
      result.retryAfter().ifPresent(after -> fields.put("Retry-After", String.valueOf(Math.max(1, seconds(after)))));
    }
  }

  private static void put(Map<String, String> fields, String name, String value) {
    if (!value.isEmpty()) {
      fields.put(name, value);
    }
  }

  private static String quoted(String text) {
    return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"") + '"';
  }

  private static BigInteger ns(Duration duration) {
    return BigInteger.valueOf(duration.getSeconds()).multiply(SECOND).add(BigInteger.valueOf(duration.getNano()));
  }

  private static BigInteger up(BigInteger n, BigInteger by) {
    BigInteger[] parts = n.divideAndRemainder(by);
    return parts[1].signum() == 0 ? parts[0] : parts[0].add(BigInteger.ONE);
  }
}
