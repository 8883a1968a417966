package io.github.redisthrottle;

import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import org.jspecify.annotations.Nullable;

/** What CL.INSPECT tells of a key in this process. */
final class HeldInspection {
  private static final long MOST = Long.MAX_VALUE; // no state is beyond so many units

  private HeldInspection() {}

  /** Tells what a key holds at an instant, ns since 1970, where so many callers wait. Null is no key. */
  static Inspection of(@Nullable Held held, long now, long waiting) {
    Instant at = Instant.ofEpochMilli(Math.floorDiv(now, Held.MS));
    if (held == null || !held.exists(now)) {
      return new Inspection(Inspection.Kind.NONE, at, 0, Optional.empty(), Optional.empty(), 0, Optional.empty(), waiting, List.of());
    }
    Optional<Instant> expires = Optional.of(Instant.ofEpochMilli(held.expiresMs()));
    if (held.isLeases()) {
      long[] lapses = held.lapses(now);
      Optional<Instant> next = lapses.length == 0 ? Optional.empty() : Optional.of(Instant.ofEpochMilli(lapses[0]));
      return new Inspection(Inspection.Kind.LEASES, at, 0, expires, Optional.empty(), lapses.length, next, waiting, List.of());
    }
    List<Kept> kept = held.kept();
    boolean isNumber = kept.size() == 1 && kept.get(0).isNumber();
    Inspection.Kind kind = kept.isEmpty() ? Inspection.Kind.BAN : isNumber ? Inspection.Kind.RATE : Inspection.Kind.LIMITS;
    Optional<Instant> banned = held.bannedUntil() > 0 ? Optional.of(instant(held.bannedUntil())) : Optional.empty();
    List<HeldLimit> limits = kept.stream().map(one -> limit(one, isNumber ? 0 : one.periodNs(), now)).toList();
    return new Inspection(kind, at, 0, expires, banned, 0, Optional.empty(), waiting, limits);
  }

  private static HeldLimit limit(Kept kept, long periodNs, long now) {
    HeldLimit.Kind kind = HeldLimit.Kind.valueOf(kept.id().substring(0, kept.id().indexOf(' ')));
    Optional<Duration> period = periodNs == 0 ? Optional.empty() : Optional.of(millis(periodNs));
    Usage.Stored stored = kept.stored();
    HeldLimit unused = new HeldLimit(kind, period, OptionalLong.of(0), 0, Optional.empty(), Optional.empty(), Duration.ZERO);
    if (stored == null) {
      return unused;
    }
    if (kind == HeldLimit.Kind.RATE) {
      return Long.compareUnsigned(stored.at(), now) <= 0
          ? unused
          : new HeldLimit(kind, period, OptionalLong.empty(), 0, Optional.empty(), Optional.of(instant(stored.at())), millis(stored.more()));
    }
    if (periodNs == 0) {
      return new HeldLimit(kind, period, OptionalLong.of(stored.more()), 0, Optional.empty(), Optional.empty(), Duration.ZERO);
    }
    Duration length = Duration.ofNanos(periodNs);
    Limit fixed = kind == HeldLimit.Kind.FIXED ? Limit.fixed(MOST, length) : Limit.fixed(MOST, length).first();
    Usage usage = Usage.of(kind == HeldLimit.Kind.WINDOW ? Limit.window(MOST, length) : fixed, now, stored);
    long used = MOST - usage.available();
    if (used == 0) {
      return unused;
    }
    Usage.Stored left = usage.stored();
    Usage.Standing standing = usage.standing();
    return new HeldLimit(
        kind,
        period,
        OptionalLong.of(used),
        kind == HeldLimit.Kind.WINDOW && left != null ? left.pairs().size() : 0,
        Optional.of(instant(Saturated.plus(now, standing.nextNs()))),
        Optional.of(instant(Saturated.plus(now, standing.resetNs()))),
        Duration.ZERO);
  }

  /** Rounds ns, which are unsigned, up to ms. */
  private static long ceil(long ns) {
    return ns == 0 ? 0 : Long.divideUnsigned(ns - 1, Held.MS) + 1;
  }

  private static Instant instant(long ns) {
    return Instant.ofEpochMilli(ceil(ns));
  }

  private static Duration millis(long ns) {
    return Duration.ofMillis(ceil(ns));
  }
}
