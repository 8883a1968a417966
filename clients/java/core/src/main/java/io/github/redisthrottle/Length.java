package io.github.redisthrottle;

import java.math.BigInteger;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/** The period of a limit: a length of time, or a number of weeks, months or years of the calendar. */
record Length(long ns, long number, @Nullable Calendar unit) {
  private static final Pattern CALENDAR = Pattern.compile("([0-9.]*)(w|mo|y)");
  private static final long DAY = 86_400_000_000_000L;

  /** The units of the calendar: how long one is at least and at most, in days, and on average, in seconds. */
  enum Calendar {
    WEEK("w", 7, 7, 7 * 86_400),
    MONTH("mo", 28, 31, 146_097L * 86_400 / 4800),
    YEAR("y", 365, 366, 146_097L * 86_400 / 400);

    final String word;
    final long shortest;
    final long longest;
    final long meanSeconds;

    Calendar(String word, long shortest, long longest, long meanSeconds) {
      this.word = word;
      this.shortest = shortest;
      this.longest = longest;
      this.meanSeconds = meanSeconds;
    }
  }

  static Length of(Duration duration) {
    return new Length(Durations.nanos(duration, "the period"), 0, null);
  }

  static Length of(long number, ChronoUnit unit) {
    Calendar calendar =
        switch (unit) {
          case WEEKS -> Calendar.WEEK;
          case MONTHS -> Calendar.MONTH;
          case YEARS -> Calendar.YEAR;
          default -> null;
        };
    return calendar == null ? of(Duration.of(number, unit)) : new Length(0, number, calendar);
  }

  static Length parse(String text, String what, boolean calendar) {
    Matcher matcher = CALENDAR.matcher(text);
    if (!calendar) {
      return of(Durations.parse(text, what));
    }
    if (!matcher.matches()) {
      return of(Durations.parse(text, what, "ms, s, m, h, d, w, mo or y"));
    }
    try {
      long number = matcher.group(1).isEmpty() ? 1 : Limits.units(matcher.group(1));
      for (Calendar unit : Calendar.values()) {
        if (unit.word.equals(matcher.group(2))) {
          return new Length(0, number, unit);
        }
      }
    } catch (IllegalArgumentException e) {
      throw new IllegalArgumentException(what + ": \"" + text + "\": weeks, months and years are whole", e);
    }
    throw new AssertionError(text);
  }

  boolean isPositive() {
    return ns > 0 || number > 0;
  }

  /** Returns a length of time that is so many times as long. */
  Length times(int factor) {
    return new Length(Math.multiplyExact(ns, (long) factor), number, unit);
  }

  /** Whether windows of this length begin at midnight of a time zone. */
  boolean isWholeDays() {
    return unit != null || ns % DAY == 0;
  }

  /** Whether all windows of it have one length. */
  boolean isEven() {
    return unit == null || unit == Calendar.WEEK;
  }

  /** Returns how short it can be, in ns; -1 if it is longer than the server takes. */
  long shortestNs() {
    if (unit == null) {
      return ns;
    }
    return number > Long.MAX_VALUE / (unit.longest * DAY) ? -1 : number * unit.shortest * DAY;
  }

  /** Returns how long it is on average, in ns. */
  BigInteger meanNs() {
    return unit == null
        ? BigInteger.valueOf(ns)
        : BigInteger.valueOf(number).multiply(BigInteger.valueOf(unit.meanSeconds)).multiply(BigInteger.valueOf(1_000_000_000));
  }

  String word() {
    return unit == null ? Durations.word(ns) : number + unit.word;
  }
}
