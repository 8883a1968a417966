package io.github.redisthrottle;

import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.time.zone.ZoneOffsetTransition;
import java.time.zone.ZoneRules;

/**
 * The windows of FIXED limits: multiples of a length since 1970, or days, weeks, months and years by the clocks of a
 * zone.
 */
final class Windows {
  private static final long SECOND = 1_000_000_000;
  private static final long DAY = 86_400 * SECOND;
  private static final long MONDAY = -3; // 1969-12-29, in days since 1970
  private static final long FIRST = 2; // the number of the window that is counted from: 1970 may lie in one before it

  private Windows() {}

  /**
   * A window.
   *
   * @param index the number of one of the calendar; the beginning of one that begins with the first unit
   * @param start from when on, in ns since 1970
   * @param end until when, unsigned
   */
  record Window(long index, long start, long end) {
    /** Returns the end as an instant, or the last one there is. */
    long last() {
      return start > 0 && end < 0 ? Long.MAX_VALUE : end;
    }
  }

  /** Returns the window of a limit that an instant lies in. */
  static Window at(Limit limit, long now) {
    Length length = limit.length();
    long later = limit.offsetNs();
    String zone = zoneOf(limit);
    if (length.unit() == null && zone.isEmpty()) {
      long index = Math.floorDiv(now - later, length.ns());
      long start = index * length.ns() + later;
      return new Window(index, start, start + length.ns());
    }
    ZoneRules rules = (zone.isEmpty() ? ZoneOffset.UTC : ZoneId.of(zone)).getRules();
    long index = indexOf(length, wall(now - later, rules.getOffset(instant(now))).toLocalDate());
    // Clocks that have been set back show an earlier window again. It is over.
    while (begin(length, index + 1, later, rules) <= now) {
      index++;
    }
    return new Window(index + FIRST, begin(length, index, later, rules), begin(length, index + 1, later, rules));
  }

  /**
   * Returns what tells the windows of a limit from others; empty of multiples of a period since 1970, which the period
   * tells.
   */
  static String calendarOf(Limit limit) {
    String zone = zoneOf(limit);
    if (limit.length().unit() == null && zone.isEmpty() && limit.offsetNs() == 0) {
      return "";
    }
    return limit.length().word() + " " + limit.offsetNs() + " " + zone;
  }

  private static String zoneOf(Limit limit) {
    return limit.zone().equals("UTC") ? "" : limit.zone();
  }

  private static long indexOf(Length length, LocalDate date) {
    if (length.unit() == null) {
      return Math.floorDiv(date.toEpochDay(), length.ns() / DAY);
    }
    return switch (length.unit()) {
      case WEEK -> Math.floorDiv(date.toEpochDay() - MONDAY, 7 * length.number());
      case MONTH -> Math.floorDiv(date.getYear() * 12L + date.getMonthValue() - 1 - 1970 * 12, length.number());
      case YEAR -> Math.floorDiv(date.getYear() - 1970L, length.number());
    };
  }

  private static LocalDate dateOf(Length length, long index) {
    LocalDate epoch = LocalDate.EPOCH;
    if (length.unit() == null) {
      return epoch.plusDays(index * (length.ns() / DAY));
    }
    return switch (length.unit()) {
      case WEEK -> epoch.plusDays(MONDAY + 7 * length.number() * index);
      case MONTH -> epoch.plusMonths(length.number() * index);
      case YEAR -> epoch.plusYears(length.number() * index);
    };
  }

  private static long begin(Length length, long index, long later, ZoneRules rules) {
    LocalDateTime shown = dateOf(length, index).atStartOfDay().plusNanos(later);
    return nanos(firstShowing(shown, rules));
  }

  /** Returns the first instant at which the clocks show a time or a later one. */
  private static Instant firstShowing(LocalDateTime time, ZoneRules rules) {
    ZoneOffsetTransition change = rules.getTransition(time);
    return change != null && change.isGap() ? change.getInstant() : time.toInstant(rules.getValidOffsets(time).get(0));
  }

  private static LocalDateTime wall(long ns, ZoneOffset offset) {
    return LocalDateTime.ofEpochSecond(Math.floorDiv(ns, SECOND), (int) Math.floorMod(ns, SECOND), offset);
  }

  static Instant instant(long ns) {
    return Instant.ofEpochSecond(Math.floorDiv(ns, SECOND), Math.floorMod(ns, SECOND));
  }

  static long nanos(Instant instant) {
    return Saturated.plus(Saturated.times(instant.getEpochSecond(), SECOND), instant.getNano());
  }
}
