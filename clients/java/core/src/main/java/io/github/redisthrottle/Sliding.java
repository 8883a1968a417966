package io.github.redisthrottle;

import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * A unit counts for one period from its instant on. Beyond 64 entries units share instants that are no earlier than
 * their own.
 */
final class Sliding extends Usage {
  private static final int EXACT_ENTRIES = 64;

  private final long period;
  private final boolean corrected;
  private final List<Pair> entries;
  private long used;

  Sliding(Limit limit, long now, @Nullable Stored stored) {
    super(limit, now);
    period = limit.length().ns();
    entries = new ArrayList<>(stored == null ? List.of() : stored.pairs());
    entries.removeIf(entry -> Saturated.minus(now, entry.first()) >= period);
    for (Pair entry : entries) {
      used += entry.second();
    }
    long ahead = takeAhead();
    corrected = ahead > 0;
    if (corrected) {
      record(ahead);
    }
  }

  /** Takes out what a clock wrote that was set back since: it counts as if it were charged now. */
  private long takeAhead() {
    long latest = Math.max(now, endOfSlot(now));
    long ahead = 0;
    for (Pair last = last(); last != null && last.first() > latest; last = last()) {
      ahead += last.second();
      entries.remove(entries.size() - 1);
    }
    return ahead;
  }

  private @Nullable Pair last() {
    return entries.isEmpty() ? null : entries.get(entries.size() - 1);
  }

  private long endOfSlot(long at) {
    long slot = period / EXACT_ENTRIES + 1;
    return Math.floorDiv(at, slot) * slot + slot - 1;
  }

  /** Adds units to the entries, and leaves the total alone. */
  private void record(long units) {
    Pair last = last();
    long own = entries.size() < EXACT_ENTRIES ? now : endOfSlot(now);
    long at = last != null && last.first() >= now ? last.first() : own;
    if (last != null && last.first() == at) {
      entries.set(entries.size() - 1, new Pair(at, last.second() + units));
      return;
    }
    if (entries.size() > EXACT_ENTRIES) {
      join();
    }
    entries.add(new Pair(at, units));
  }

  /** Makes one of the oldest two entries that share a slot, at the later instant. */
  private void join() {
    for (int i = 1; i < entries.size(); i++) {
      Pair one = entries.get(i - 1);
      Pair next = entries.get(i);
      if (next.first() <= endOfSlot(one.first())) {
        entries.set(i, new Pair(next.first(), one.second() + next.second()));
        entries.remove(i - 1);
        return;
      }
    }
  }

  @Override
  boolean corrected() {
    return corrected;
  }

  @Override
  long available() {
    return Math.max(limit.count() - used, 0);
  }

  @Override
  long retryAfter(long units) {
    if (units > limit.count()) {
      return NEVER;
    }
    return units == 0 ? 0 : untilFreed(units - (limit.count() - used));
  }

  private long untilFreed(long units) {
    long left = units;
    for (Pair entry : entries) {
      if (left <= 0) {
        return 0;
      }
      left -= entry.second();
      if (left <= 0) {
        return untilOver(entry);
      }
    }
    return 0;
  }

  private long untilOver(Pair entry) {
    return Saturated.plus(entry.first() - now, period);
  }

  @Override
  Standing standing() {
    Pair last = last();
    long next = used > 0 ? untilFreed(Math.max(used - limit.count(), 0) + 1) : 0;
    return new Standing(limit.count(), available(), last == null ? 0 : untilOver(last), next);
  }

  @Override
  void charge(long units, long waitNs) {
    take(Math.min(units, available()));
  }

  @Override
  long force(long units) {
    return take(Math.min(units, Long.MAX_VALUE - used));
  }

  private long take(long units) {
    if (units <= 0) {
      return 0;
    }
    record(units);
    used += units;
    return units;
  }

  /** Where there is no room, as many of the oldest units leave. */
  @Override
  long chargeDenied(long units, long spare) {
    long count = limit.count() - spare;
    long taken = Math.min(units, count);
    if (taken <= 0) {
      return 0;
    }
    long excess = Math.min(used - (count - taken), taken);
    while (excess > 0 && !entries.isEmpty()) {
      Pair oldest = entries.get(0);
      long gone = Math.min(oldest.second(), excess);
      if (gone == oldest.second()) {
        entries.remove(0);
      } else {
        entries.set(0, new Pair(oldest.first(), oldest.second() - gone));
      }
      excess -= gone;
      used -= gone;
    }
    return take(taken);
  }

  @Override
  long refund(long units) {
    long refunded = Math.min(units, used);
    long left = refunded;
    while (left > 0 && !entries.isEmpty()) {
      Pair last = entries.remove(entries.size() - 1);
      long back = Math.min(last.second(), left);
      if (back < last.second()) {
        entries.add(new Pair(last.first(), last.second() - back));
      }
      left -= back;
    }
    used -= refunded;
    return refunded;
  }

  @Override
  long fullAt() {
    return last() == null ? 0 : Saturated.plus(last().first(), period);
  }

  @Override
  @Nullable Stored stored() {
    return last() == null ? null : new Stored(last().first(), 0, List.copyOf(entries));
  }
}
