package io.github.redisthrottle;

import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.time.zone.ZoneOffsetTransition;
import java.time.zone.ZoneRules;

/** The windows of FIXED limits: multiples of a length since 1970, or days, weeks, months and years by the clocks of a zone. */
final class Windows {
  private static final long SECOND = 1_000_000_000;
  private static final long DAY = 86_400 * SECOND;
  private static final long MONDAY = -3; // 1969-12-29, in days since 1970

  private Windows() {}

  /** From when on, and until when, in ns since 1970. */
  record Span(long start, long end) {
    boolean contains(long now) {
      return start <= now && now < end;
    }
  }

  /** Returns the window of a limit that an instant lies in. */
  static Span at(Limit limit, long now) {
    Length length = limit.length();
    long later = limit.offsetNs();
    if (length.unit() == null && limit.zone().isEmpty()) {
      long start = Math.floorDiv(now - later, length.ns()) * length.ns() + later;
      return new Span(start, Saturated.plus(start, length.ns()));
    }
    ZoneRules rules = (limit.zone().isEmpty() ? ZoneOffset.UTC : ZoneId.of(limit.zone())).getRules();
    long index = indexOf(length, wall(now - later, rules.getOffset(instant(now))).toLocalDate());
    // Clocks that have been set back show an earlier window again. It is over.
    while (begin(length, index + 1, later, rules) <= now) {
      index++;
    }
    return new Span(begin(length, index, later, rules), begin(length, index + 1, later, rules));
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
