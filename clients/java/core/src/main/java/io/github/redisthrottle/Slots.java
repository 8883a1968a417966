package io.github.redisthrottle;

import java.time.Duration;
import java.util.Objects;

/**
 * In place of the limits of a key, in {@link Limiter#admit} and {@link Limiter#settle}: one of so many leases.
 *
 * @param count how many leases the key has: 0 or more
 * @param ttl how long a lease lasts: 1 ms or more
 */
public record Slots(long count, Duration ttl) implements Rule {
  /** Checks both. */
  public Slots {
    Objects.requireNonNull(ttl, "ttl");
    if (count < 0) {
      throw new IllegalArgumentException("slots: the count, " + count + ", is negative");
    }
    if (Durations.nanos(ttl, "ttl") < 1_000_000) {
      throw new IllegalArgumentException("slots: the ttl " + ttl + " is shorter than a millisecond");
    }
  }

  /** Returns so many slots whose leases last for {@code ttl}. */
  public static Slots of(long count, Duration ttl) {
    return new Slots(count, ttl);
  }
}
