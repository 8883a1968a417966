package io.github.redisthrottle;

import java.time.Duration;
import java.time.Instant;
import java.util.Optional;
import java.util.OptionalLong;

/**
 * What a key holds of one limit: see {@link Inspection#limits}. Counts and bursts come with calls, and are not stored.
 *
 * @param kind of the limit
 * @param period to the millisecond; empty if the key does not tell: of a lone rate, and of a fixed window by the
 *     calendar
 * @param used the units, or denied calls, that count now; empty of a rate that is not full, where they depend on its
 *     count
 * @param entries of a window: how many entries of its state count
 * @param nextAt when the first used units come back; empty if none is used, or the key does not tell: of a rate, and of
 *     a fixed window by the calendar
 * @param resetAt when all units are back; empty if none is used, or the key does not tell: of a fixed window by the
 *     calendar
 * @param queue by how much a rate was overdrawn when it was written, by reserved slots or debt, to the millisecond
 */
public record HeldLimit(
    Kind kind, Optional<Duration> period, OptionalLong used, long entries, Optional<Instant> nextAt, Optional<Instant> resetAt, Duration queue) {

  /** The kind of a limit that a key holds. */
  public enum Kind {
    /** As {@link Limit#rate}. */
    RATE,
    /** As {@link Limit#window}. */
    WINDOW,
    /** As {@link Limit#fixed(long, Duration)}. */
    FIXED,
    /** A fixed window that begins with the first unit, as {@link Limit#first}. */
    FIRST,
    /** The denied calls that {@link Call#banAfter} counts. */
    AFTER
  }
}
