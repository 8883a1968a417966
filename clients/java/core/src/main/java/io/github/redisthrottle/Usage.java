package io.github.redisthrottle;

import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * A limit and what is used of it, as of an instant. Instants are ns since 1970, and lengths ns. The rules are those
 * of spec/, which holds the kinds to them.
 */
abstract sealed class Usage permits Bucket, Sliding, Counted, Usage.Zero {
  /** The retry after of what no wait makes possible. */
  static final long NEVER = -1;

  final Limit limit;
  final long now;

  Usage(Limit limit, long now) {
    this.limit = limit;
    this.now = now;
  }

  /**
   * What a key holds of a limit.
   *
   * @param at when a bucket is full again (the TAT), which is unsigned; when the last units of a window count
   *     from; the number or the beginning of a fixed window
   * @param more by how much the TAT may be beyond the capacity; the units used in a fixed window
   * @param pairs of a bucket its reservations, and of a window its entries, the oldest first
   */
  record Stored(long at, long more, List<Pair> pairs) {}

  /**
   * A reservation: the time for which nothing was charged, and what was charged since. Of a window: when units count
   * from, and how many.
   */
  record Pair(long first, long second) {}

  /** What is left of a limit. */
  record Standing(long capacity, long available, long resetNs, long nextNs) {}

  /** Returns a limit with what a key holds of it, null for nothing, brought to an instant. */
  static Usage of(Limit limit, long now, @Nullable Stored stored) {
    if (limit.count() == 0) {
      return new Zero(limit, now);
    }
    return switch (limit.kind()) {
      case RATE -> new Bucket(limit, now, stored);
      case WINDOW -> new Sliding(limit, now, stored);
      case FIXED -> limit.isFirst() ? Counted.first(limit, now, stored) : Counted.ofCalendar(limit, now, stored);
    };
  }

  /**
   * Whether a raised rate, or a clock that was set back, made a state that has to be stored, even if the call is
   * denied.
   */
  abstract boolean corrected();

  long capacity() {
    return limit.capacity();
  }

  abstract long available();

  /**
   * Returns the time until so many units are there: 0 when they are, {@link #NEVER} when they are more than the limit
   * holds.
   */
  abstract long retryAfter(long units);

  abstract Standing standing();

  /**
   * Returns how long a call may wait for its units: no bucket is charged so late that it would take more than 292
   * years to refill.
   */
  long longestWait() {
    return Long.MAX_VALUE;
  }

  /** Takes units that are there, or will be after a wait. */
  abstract void charge(long units, long waitNs);

  /** Takes units, also those that are not there, and returns how many. */
  abstract long force(long units);

  /** Takes of the units of a call that was denied as many as there are, leaves spare ones, and returns how many. */
  abstract long chargeDenied(long units, long spare);

  /** Returns units, and tells how many were lacking. */
  abstract long refund(long units);

  /** Returns the instant from which the limit is full, unsigned; 0 when nothing is used. */
  abstract long fullAt();

  /** Returns what to store; null if nothing is used. */
  abstract @Nullable Stored stored();

  /** A limit of 0. It has no state. */
  static final class Zero extends Usage {
    private Zero(Limit limit, long now) {
      super(limit, now);
    }

    @Override
    boolean corrected() {
      return false;
    }

    @Override
    long capacity() {
      return 0;
    }

    @Override
    long available() {
      return 0;
    }

    @Override
    long retryAfter(long units) {
      return units > 0 ? NEVER : 0;
    }

    @Override
    Standing standing() {
      return new Standing(0, 0, 0, 0);
    }

    @Override
    void charge(long units, long waitNs) {}

    @Override
    long force(long units) {
      return 0;
    }

    @Override
    long chargeDenied(long units, long spare) {
      return 0;
    }

    @Override
    long refund(long units) {
      return 0;
    }

    @Override
    long fullAt() {
      return 0;
    }

    @Override
    @Nullable Stored stored() {
      return null;
    }
  }
}
