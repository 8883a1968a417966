package io.github.redisthrottle;

import java.util.ArrayDeque;
import java.util.Iterator;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The generic cell rate algorithm. The theoretical arrival time (TAT) is the instant at which the bucket is full
 * again.
 */
final class Bucket extends Usage {
  private static final int MOST_LIFTS = 4;

  private final long emission; // rounded up, so that it never admits more
  private final long tolerance;
  private final boolean corrected;
  private final ArrayDeque<Pair> lifts; // reservations, the oldest first
  private long backlog; // from now to the TAT
  private long queue; // how far the TAT may be beyond the burst tolerance: what was reserved or forced

  Bucket(Limit limit, long now, @Nullable Stored stored) {
    super(limit, now);
    emission = (limit.length().ns() - 1) / limit.count() + 1;
    if (Math.multiplyHigh(limit.capacity(), emission) != 0 || limit.capacity() * emission < 0) {
      throw new MistakeException("ERR syntax error: a full bucket would take more than 292 years to refill", null);
    }
    tolerance = limit.capacity() * emission;
    lifts = new ArrayDeque<>(stored == null ? List.of() : stored.pairs());
    queue = stored == null ? 0 : stored.more();
    long ceiling = Saturated.plus(tolerance, queue);
    long ahead = stored == null || Long.compareUnsigned(stored.at(), now) <= 0 ? 0 : stored.at() - now;
    corrected = Long.compareUnsigned(ahead, ceiling) > 0;
    backlog = corrected ? ceiling : ahead;
    if (corrected || backlog == 0) {
      lifts.clear();
      set(backlog);
    }
  }

  private void set(long backlog) {
    this.backlog = backlog;
    queue = Math.max(backlog - tolerance, 0);
  }

  @Override
  boolean corrected() {
    return corrected;
  }

  @Override
  long longestWait() {
    return Long.MAX_VALUE - tolerance;
  }

  @Override
  long available() {
    return Math.max(tolerance - backlog, 0) / emission;
  }

  @Override
  long retryAfter(long units) {
    if (units > limit.capacity()) {
      return NEVER;
    }
    return units == 0 ? 0 : Math.max(backlog - (tolerance - units * emission), 0);
  }

  @Override
  Standing standing() {
    long available = available();
    long next = backlog > 0 ? backlog - (tolerance - (available + 1) * emission) : 0;
    return new Standing(limit.capacity(), available, backlog, next);
  }

  @Override
  void charge(long units, long waitNs) {
    move(Math.max(waitNs - backlog, 0), units * emission);
  }

  @Override
  long force(long units) {
    long taken = Math.min(Saturated.times(units, emission), Long.MAX_VALUE - backlog);
    if (taken > 0) {
      move(0, taken);
    } else {
      set(backlog); // as a debt of this bucket
    }
    return unitsUp(taken);
  }

  /** Returns how many units a time is, a part of one included. */
  private long unitsUp(long ns) {
    return ns / emission + (ns % emission > 0 ? 1 : 0);
  }

  @Override
  long chargeDenied(long units, long spare) {
    long left = Math.max(Math.max(tolerance - backlog, 0) - Saturated.times(spare, emission), 0);
    long taken = Math.min(Saturated.times(units, emission), left);
    if (taken > 0) {
      move(0, taken);
    }
    return unitsUp(taken);
  }

  /** Moves the TAT on by idle, for which nothing is charged, and then by charged. */
  private void move(long idle, long charged) {
    dropPastLifts();
    if (idle > 0 && charged > 0) {
      if (lifts.size() == MOST_LIFTS) { // the two oldest become one
        Pair oldest = lifts.pollFirst();
        Pair second = lifts.pollFirst();
        lifts.addFirst(new Pair(oldest.first() + second.first(), oldest.second() + second.second()));
      }
      lifts.addLast(new Pair(idle, charged));
    } else if (!lifts.isEmpty()) {
      Pair last = lifts.pollLast();
      lifts.addLast(new Pair(last.first(), last.second() + idle + charged));
    }
    set(backlog + idle + charged);
  }

  /** Forgets the lifts whose slot has come. */
  private void dropPastLifts() {
    long from = backlog; // seen from now
    for (Pair lift : lifts) {
      from -= lift.first() + lift.second();
    }
    while (!lifts.isEmpty() && from + lifts.peekFirst().first() <= 0) {
      Pair past = lifts.pollFirst();
      from += past.first() + past.second();
    }
  }

  @Override
  long refund(long units) {
    dropPastLifts();
    long charged = backlog - idle();
    if (units > charged / emission) {
      lifts.clear();
      set(0);
      return unitsUp(charged);
    }
    long refund = units * emission;
    long rest = backlog;
    // A lift goes with the last that was charged since.
    while (!lifts.isEmpty() && refund >= lifts.peekLast().second()) {
      Pair last = lifts.pollLast();
      refund -= last.second();
      rest -= last.second();
      rest -= Math.min(last.first(), rest);
    }
    if (!lifts.isEmpty()) {
      Pair last = lifts.pollLast();
      lifts.addLast(new Pair(last.first(), last.second() - refund));
    }
    set(rest - refund);
    return units;
  }

  /** Returns how much of the backlog no unit was charged for. */
  private long idle() {
    long idle = 0;
    long left = backlog;
    for (Iterator<Pair> newestFirst = lifts.descendingIterator(); newestFirst.hasNext(); ) {
      Pair lift = newestFirst.next();
      long free = Math.min(lift.first(), left - lift.second()); // that of the oldest may have begun before now
      left -= lift.second() + free;
      idle += free;
    }
    return idle;
  }

  @Override
  long fullAt() {
    return backlog == 0 ? 0 : now + backlog;
  }

  @Override
  @Nullable Stored stored() {
    return backlog == 0 ? null : new Stored(now + backlog, queue, List.copyOf(lifts));
  }
}
