package io.github.redisthrottle;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;

/**
 * What is used of one limit of a key, in this process. Instants are ns since 1970, and lengths ns. The rules are those of spec/, which holds
 * this class to them.
 */
abstract sealed class Usage {
  /** The retry after of what no wait makes possible. */
  static final long NEVER = Long.MAX_VALUE;

  /** The limit of the call. Its count may change from call to call. */
  Limit limit;

  private Usage(Limit limit) {
    this.limit = limit;
  }

  /** Returns the usage of a limit of which nothing is used. */
  static Usage none(Limit limit) {
    if (limit.count() == 0) {
      return new Zero(limit);
    }
    return switch (limit.kind()) {
      case RATE -> new Rate(limit);
      case WINDOW -> new Window(limit);
      case FIXED -> new Fixed(limit);
    };
  }

  /** What is left of a limit. */
  record Standing(long capacity, long available, long resetNs, long nextNs) {}

  abstract Usage copy();

  /** Forgets what is over. What a clock left behind that was set back since is corrected. It comes before all that takes or returns units. */
  abstract void bringTo(long now);

  abstract long available(long now);

  /** Returns the time until so many units are there: 0 when they are, {@link #NEVER} when they are more than the limit holds. */
  abstract long retryAfter(long now, long units);

  abstract Standing standing(long now);

  /** Returns how long a call may wait for its units: no bucket is charged so late that it would take more than 292 years to refill. */
  long longestWait() {
    return Long.MAX_VALUE;
  }

  /** Takes units that are there, or will be after a wait. */
  abstract void charge(long now, long units, long waitNs);

  /** Takes units, also those that are not there, and returns how many. */
  abstract long force(long now, long units);

  /** Takes of the units of a call that was denied as many as there are, and leaves spare ones. */
  abstract void chargeDenied(long now, long units, long spare);

  /** Returns units, and tells how many were lacking. */
  abstract long refund(long now, long units);

  /** Returns the instant from which the limit is full; 0 when nothing is used. */
  abstract long fullAt();

  /** The generic cell rate algorithm. The theoretical arrival time (TAT) is the instant at which the bucket is full again. */
  static final class Rate extends Usage {
    private long tat; // unsigned: a debt may reach 2^63 ns beyond now
    private long queue; // how far the TAT may be beyond the burst tolerance: what was reserved or forced
    private final ArrayDeque<Lift> lifts = new ArrayDeque<>(0); // the oldest first

    private static final int MOST_LIFTS = 4;

    /** By how much a reservation moved the TAT on: the time for which nothing was charged, and what was charged since. */
    private record Lift(long idle, long charged) {
      Lift plus(Lift other) {
        return new Lift(idle + other.idle, charged + other.charged);
      }
    }

    private Rate(Limit limit) {
      super(limit);
    }

    @Override
    Usage copy() {
      Rate copy = new Rate(limit);
      copy.tat = tat;
      copy.queue = queue;
      copy.lifts.addAll(lifts);
      return copy;
    }

    /** Rounded up, so that it never admits more. */
    private long emission() {
      return (limit.length().ns() - 1) / limit.count() + 1;
    }

    private long tolerance() {
      return Saturated.times(limit.capacity(), emission());
    }

    @Override
    long longestWait() {
      return Long.MAX_VALUE - tolerance();
    }

    private long backlog(long now) {
      if (Long.compareUnsigned(tat, now) <= 0) {
        return 0;
      }
      long ahead = tat - now < 0 ? Long.MAX_VALUE : tat - now;
      return Math.min(ahead, ceiling());
    }

    private long ceiling() {
      return Saturated.plus(tolerance(), queue);
    }

    private void set(long now, long backlog) {
      tat = backlog == 0 ? 0 : now + backlog;
      queue = Math.max(backlog - tolerance(), 0);
      if (backlog == 0) {
        lifts.clear();
      }
    }

    /** Forgets the lifts that no longer count: those whose slot has come, or all if the TAT is out of reach. */
    private void dropPastLifts(long now) {
      if (Long.compareUnsigned(tat, now) > 0 && Long.compareUnsigned(tat - now, ceiling()) > 0) {
        lifts.clear();
      }
      long from = tat;
      for (Lift lift : lifts) {
        from -= lift.idle + lift.charged;
      }
      while (!lifts.isEmpty() && Long.compareUnsigned(from + lifts.peekFirst().idle, now) <= 0) {
        Lift past = lifts.pollFirst();
        from += past.idle + past.charged;
      }
    }

    /** Moves the TAT on by idle, for which nothing is charged, and then by charged. */
    private void move(long now, long idle, long charged) {
      if (idle > 0 && charged > 0) {
        if (lifts.size() == MOST_LIFTS) { // the two oldest become one
          Lift oldest = lifts.pollFirst();
          lifts.addFirst(oldest.plus(lifts.pollFirst()));
        }
        lifts.addLast(new Lift(idle, charged));
      } else if (!lifts.isEmpty()) {
        lifts.addLast(lifts.pollLast().plus(new Lift(0, idle + charged)));
      }
      set(now, Saturated.plus(backlog(now), Saturated.plus(idle, charged)));
    }

    /** Returns how much of a backlog no unit was charged for. */
    private long idleIn(long backlog) {
      long idle = 0;
      long left = backlog;
      for (Iterator<Lift> newestFirst = lifts.descendingIterator(); newestFirst.hasNext(); ) {
        Lift lift = newestFirst.next();
        left -= lift.charged;
        long part = Math.min(lift.idle, left); // that of the oldest may have begun before now
        left -= part;
        idle += part;
      }
      return idle;
    }

    @Override
    void bringTo(long now) {
      dropPastLifts(now);
      set(now, backlog(now));
    }

    @Override
    long available(long now) {
      return Math.max(tolerance() - backlog(now), 0) / emission();
    }

    @Override
    long retryAfter(long now, long units) {
      if (units > limit.capacity()) {
        return NEVER;
      }
      return units == 0 ? 0 : Math.max(backlog(now) - (tolerance() - units * emission()), 0);
    }

    @Override
    Standing standing(long now) {
      long backlog = backlog(now);
      long available = available(now);
      long next = backlog > 0 ? backlog - (tolerance() - (available + 1) * emission()) : 0;
      return new Standing(limit.capacity(), available, backlog, next);
    }

    @Override
    void charge(long now, long units, long waitNs) {
      move(now, Math.max(waitNs - backlog(now), 0), Saturated.times(units, emission()));
    }

    @Override
    long force(long now, long units) {
      long taken = Math.min(Saturated.times(units, emission()), Long.MAX_VALUE - backlog(now));
      move(now, 0, taken);
      return unitsUp(taken);
    }

    /** Returns how many units a time is, a part of one included. */
    private long unitsUp(long ns) {
      return ns / emission() + (ns % emission() > 0 ? 1 : 0);
    }

    @Override
    void chargeDenied(long now, long units, long spare) {
      if (spare < limit.capacity()) {
        long left = Math.max(tolerance() - backlog(now) - spare * emission(), 0);
        move(now, 0, Math.min(Saturated.times(units, emission()), left));
      }
    }

    @Override
    long refund(long now, long units) {
      long backlog = backlog(now);
      long charged = backlog - idleIn(backlog);
      if (units > charged / emission()) {
        set(now, 0);
        return unitsUp(charged);
      }
      long refund = units * emission();
      while (!lifts.isEmpty() && refund >= lifts.peekLast().charged) { // a lift goes with the last that was charged since
        Lift last = lifts.pollLast();
        refund -= last.charged;
        backlog -= last.charged;
        backlog -= Math.min(last.idle, backlog);
      }
      if (!lifts.isEmpty()) {
        lifts.addLast(lifts.pollLast().plus(new Lift(0, -refund)));
      }
      set(now, backlog - refund);
      return units;
    }

    @Override
    long fullAt() {
      return tat < 0 ? Long.MAX_VALUE : tat;
    }
  }

  /** A unit counts for one period from its instant on. Beyond 64 entries units share instants that are no earlier than their own. */
  static final class Window extends Usage {
    private static final int EXACT_ENTRIES = 64;

    private final List<Entry> entries = new ArrayList<>();

    private record Entry(long at, long units) {}

    private Window(Limit limit) {
      super(limit);
    }

    @Override
    Usage copy() {
      Window copy = new Window(limit);
      copy.entries.addAll(entries);
      return copy;
    }

    private long periodNs() {
      return limit.length().ns();
    }

    private Entry last() {
      return entries.isEmpty() ? null : entries.get(entries.size() - 1);
    }

    private long lastOfSlot(long at) {
      long slot = periodNs() / EXACT_ENTRIES + 1;
      return Math.floorDiv(at, slot) * slot + slot - 1;
    }

    /** Drops what does not count any more. What a clock wrote that was set back since counts as if it were charged now. */
    @Override
    void bringTo(long now) {
      entries.removeIf(entry -> Saturated.minus(now, entry.at) >= periodNs());
      long last = lastOfSlot(now);
      long ahead = 0;
      for (Entry entry = last(); entry != null && entry.at > now && entry.at > last; entry = last()) {
        ahead += entries.remove(entries.size() - 1).units;
      }
      if (ahead > 0) {
        add(now, now, ahead);
      }
    }

    /** Adds units at an instant, to the last entry where that is no earlier than {@code now}. */
    private void add(long now, long at, long units) {
      Entry last = last();
      if (last != null && last.at >= now) {
        entries.set(entries.size() - 1, new Entry(last.at, Saturated.plus(last.units, units)));
      } else {
        entries.add(new Entry(at, units));
      }
    }

    private long used() {
      return entries.stream().mapToLong(Entry::units).reduce(0, Saturated::plus);
    }

    @Override
    long available(long now) {
      bringTo(now);
      return Math.max(limit.count() - used(), 0);
    }

    @Override
    long retryAfter(long now, long units) {
      if (units > limit.count()) {
        return NEVER;
      }
      bringTo(now);
      return units == 0 ? 0 : untilFreed(now, units - (limit.count() - used()));
    }

    private long untilFreed(long now, long units) {
      long left = units;
      for (Entry entry : entries) {
        if (left <= 0) {
          return 0;
        }
        left -= entry.units;
        if (left <= 0) {
          return entry.at + periodNs() - now;
        }
      }
      return 0;
    }

    @Override
    Standing standing(long now) {
      bringTo(now);
      long used = used();
      long reset = last() == null ? 0 : last().at + periodNs() - now;
      long next = untilFreed(now, used > 0 ? Math.max(used - limit.count(), 0) + 1 : 0);
      return new Standing(limit.count(), Math.max(limit.count() - used, 0), reset, next);
    }

    @Override
    void charge(long now, long units, long waitNs) {
      force(now, Math.min(units, available(now)));
    }

    @Override
    long force(long now, long units) {
      if (units <= 0) {
        return 0;
      }
      bringTo(now);
      add(now, entries.size() < EXACT_ENTRIES ? now : lastOfSlot(now), units);
      if (entries.size() > EXACT_ENTRIES + 1) {
        join();
      }
      return units;
    }

    /** Makes one of the oldest two entries that share a slot, at the later instant. */
    private void join() {
      for (int i = 1; i < entries.size(); i++) {
        Entry one = entries.get(i - 1);
        Entry next = entries.get(i);
        if (lastOfSlot(one.at) == lastOfSlot(next.at)) {
          entries.set(i, new Entry(next.at, next.units + one.units));
          entries.remove(i - 1);
          return;
        }
      }
    }

    @Override
    void chargeDenied(long now, long units, long spare) {
      long count = limit.count() - spare;
      long taken = Math.min(units, count);
      if (taken <= 0) {
        return;
      }
      bringTo(now);
      long excess = Math.min(used() - (count - taken), taken);
      while (excess > 0 && !entries.isEmpty()) {
        Entry oldest = entries.remove(0);
        if (oldest.units > excess) {
          entries.add(0, new Entry(oldest.at, oldest.units - excess));
        }
        excess -= oldest.units;
      }
      force(now, taken);
    }

    @Override
    long refund(long now, long units) {
      bringTo(now);
      long left = units;
      while (left > 0 && !entries.isEmpty()) {
        Entry last = entries.remove(entries.size() - 1);
        if (last.units > left) {
          entries.add(new Entry(last.at, last.units - left));
        }
        left -= Math.min(last.units, left);
      }
      return units - left;
    }

    @Override
    long fullAt() {
      return last() == null ? 0 : Saturated.plus(last().at, periodNs());
    }
  }

  /** A count for each window of the calendar, or for windows that begin with the first unit. */
  static final class Fixed extends Usage {
    private long start;
    private long used;
    private Windows.Span latest; // mostly it is the last one again

    private Fixed(Limit limit) {
      super(limit);
    }

    @Override
    Usage copy() {
      Fixed copy = new Fixed(limit);
      copy.start = start;
      copy.used = used;
      copy.latest = latest;
      return copy;
    }

    private Windows.Span span(long now) {
      if (!limit.isFirst()) {
        if (latest == null || !latest.contains(now)) {
          latest = Windows.at(limit, now);
        }
        return latest;
      }
      long period = limit.length().shortestNs();
      long begin = used > 0 && start <= now && now - start < period ? start : now;
      return new Windows.Span(begin, Saturated.plus(begin, period));
    }

    private long usedIn(Windows.Span span, long now) {
      // What is of a later window was written before the clock was set back.
      return start >= span.start() || start > now ? used : 0;
    }

    @Override
    void bringTo(long now) {
      Windows.Span span = span(now);
      used = usedIn(span, now);
      start = span.start();
    }

    @Override
    long available(long now) {
      return Math.max(limit.count() - usedIn(span(now), now), 0);
    }

    @Override
    long retryAfter(long now, long units) {
      if (units > limit.count()) {
        return NEVER;
      }
      return units <= available(now) ? 0 : span(now).end() - now;
    }

    @Override
    Standing standing(long now) {
      Windows.Span span = span(now);
      long untilEnd = usedIn(span, now) > 0 ? span.end() - now : 0;
      return new Standing(limit.count(), available(now), untilEnd, untilEnd);
    }

    @Override
    void charge(long now, long units, long waitNs) {
      force(now, Math.min(units, available(now)));
    }

    @Override
    long force(long now, long units) {
      if (units <= 0) {
        return 0;
      }
      bringTo(now);
      used = Saturated.plus(used, units);
      return units;
    }

    @Override
    void chargeDenied(long now, long units, long spare) {
      force(now, Math.min(units, available(now) - spare));
    }

    @Override
    long refund(long now, long units) {
      bringTo(now);
      long back = Math.min(units, used);
      used -= back;
      return back;
    }

    @Override
    long fullAt() {
      return used == 0 ? 0 : span(start).end();
    }
  }

  /** Of a limit of 0 nothing can be used. */
  static final class Zero extends Usage {
    private Zero(Limit limit) {
      super(limit);
    }

    @Override
    Usage copy() {
      return this;
    }

    @Override
    void bringTo(long now) {}

    @Override
    long available(long now) {
      return 0;
    }

    @Override
    long retryAfter(long now, long units) {
      return units > 0 ? NEVER : 0;
    }

    @Override
    Standing standing(long now) {
      return new Standing(0, 0, 0, 0);
    }

    @Override
    void charge(long now, long units, long waitNs) {}

    @Override
    long force(long now, long units) {
      return 0;
    }

    @Override
    void chargeDenied(long now, long units, long spare) {}

    @Override
    long refund(long now, long units) {
      return 0;
    }

    @Override
    long fullAt() {
      return 0;
    }
  }
}
