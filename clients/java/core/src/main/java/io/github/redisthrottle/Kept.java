package io.github.redisthrottle;

import org.jspecify.annotations.Nullable;

/**
 * What a key holds of a limit of the call before, or of another one that is not full yet.
 *
 * @param id the {@link Limit.Id} of the limit
 * @param periodNs the period; 0 of a window of the calendar, whose number only a call that names the limit can read
 * @param stored null if nothing is used
 * @param named whether it is not forgotten for want of room: a count of denials
 */
record Kept(String id, long periodNs, Usage.@Nullable Stored stored, boolean named) {
  /** Of a rate that was a number alone, which has no period. */
  static final String UNKNOWN = "RATE ?";

  Kept(Limit.Id id, Usage.@Nullable Stored stored) {
    this(id.text(), id.periodNs(), stored, false);
  }

  static boolean isRate(String id) {
    return id.startsWith("RATE ");
  }

  boolean isRate() {
    return isRate(id);
  }

  /** Tells whether the server stores it, if it is alone, as a number, which has no period. */
  boolean isNumber() {
    return isRate() && stored != null && stored.more() == 0;
  }

  Kept withoutUsage() {
    return new Kept(id, periodNs, null, named);
  }

  boolean endIsUnknown() {
    return periodNs == 0 && stored != null && !isRate();
  }

  /** Returns the instant from which it is full, unsigned; 0 if it is, or if that is unknown. */
  long fullAt() {
    if (stored == null || endIsUnknown()) {
      return 0;
    }
    if (isRate()) {
      return stored.at();
    }
    return id.startsWith("FIXED ") ? Saturated.times(stored.at() + 1, periodNs) : Saturated.plus(stored.at(), periodNs);
  }

  /** Tells whether it is to be forgotten before another one. */
  boolean goesBefore(Kept other) {
    if (endIsUnknown() != other.endIsUnknown()) {
      return other.endIsUnknown();
    }
    return (endIsUnknown() && stored != null && other.stored != null)
        ? stored.at() > other.stored.at()
        : Long.compareUnsigned(fullAt(), other.fullAt()) < 0;
  }
}
