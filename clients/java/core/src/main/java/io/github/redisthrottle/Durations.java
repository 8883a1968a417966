package io.github.redisthrottle;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Lengths of time as the commands take them: a number with a unit. */
final class Durations {
  /** The longest wait of the server. What is longer is as long as it takes. */
  static final Duration LONGEST_WAIT = Duration.ofDays(36_500);

  /** In ns, the longest first. */
  private static final Map<String, Long> UNITS = new LinkedHashMap<>();

  private static final Pattern FORM = Pattern.compile("((?:0|[1-9][0-9]{0,37})(?:\\.[0-9]{1,38})?)?([a-z]+)");

  static {
    UNITS.put("d", 86_400_000_000_000L);
    UNITS.put("h", 3_600_000_000_000L);
    UNITS.put("m", 60_000_000_000L);
    UNITS.put("s", 1_000_000_000L);
    UNITS.put("ms", 1_000_000L);
  }

  private Durations() {}

  /** Returns a length of time in ns. {@code what} is the argument that an error is about. */
  static long nanos(Duration duration, String what) {
    try {
      return duration.toNanos();
    } catch (ArithmeticException e) {
      throw new IllegalArgumentException(what + ": " + duration + " is longer than 292 years", e);
    }
  }

  /** Reads a number with a unit, such as 500ms or 1.5h; a unit alone is one of it. */
  static Duration parse(String text, String what, String units) {
    Matcher matcher = FORM.matcher(text);
    Long unit = matcher.matches() ? UNITS.get(matcher.group(2)) : null;
    if (unit == null) {
      throw new IllegalArgumentException(what + ": \"" + text + "\" needs a unit: " + units);
    }
    String number = matcher.group(1) == null ? "1" : matcher.group(1);
    BigDecimal ns = new BigDecimal(number).multiply(BigDecimal.valueOf(unit)).stripTrailingZeros();
    if (ns.scale() > 0 || ns.compareTo(BigDecimal.valueOf(Long.MAX_VALUE)) > 0) {
      throw new IllegalArgumentException(
          what + ": \"" + text + "\" is not a whole number of nanoseconds of at most 292 years");
    }
    return Duration.ofNanos(ns.longValueExact());
  }

  static Duration parse(String text, String what) {
    return parse(text, what, "ms, s, m, h or d");
  }

  /** Writes a length of time exactly, in the largest unit that gives a whole number. */
  static String word(long ns) {
    for (Map.Entry<String, Long> unit : UNITS.entrySet()) {
      if (ns % unit.getValue() == 0 && (ns != 0 || unit.getKey().equals("ms"))) {
        return ns / unit.getValue() + unit.getKey();
      }
    }
    return BigDecimal.valueOf(ns, 6).stripTrailingZeros().toPlainString() + "ms";
  }

  /**
   * Returns a length of time in whole milliseconds, as servers are told of waits, bans and leases, in ns. It never
   * turns into 0, which means something else.
   */
  static long wholeMillis(Duration duration, String what) {
    long ns = nanos(duration, what);
    long ms = ns / 1_000_000;
    return (ms == 0 ? Long.signum(ns) : ms) * 1_000_000;
  }

  static BigInteger big(long n) {
    return BigInteger.valueOf(n);
  }
}
