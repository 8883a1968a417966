package io.github.redisthrottle;

import java.time.Instant;
import java.util.List;
import java.util.Optional;

/**
 * What a key holds, and until when: see {@link Limiter#inspect}. Instants are of the server's clock, rounded up to a
 * millisecond.
 *
 * @param kind what there is
 * @param now the server's clock, rounded down, with which the other instants are to be compared
 * @param bytes the length of the string: 0 of leases, and of a {@link FakeLimiter}
 * @param expiresAt when the key expires; empty of one that never does, or that is not there
 * @param bannedUntil when the ban ends; empty without one. One that is over stays until the next write: see
 *     {@link #banned}
 * @param held how many leases have not lapsed
 * @param lapsesAt when the next of them lapses; empty without any
 * @param waiting how many callers stand in line on this server; 0 without the module
 * @param limits what it holds of limits: those that the latest call named come first
 */
public record Inspection(
    Kind kind,
    Instant now,
    long bytes,
    Optional<Instant> expiresAt,
    Optional<Instant> bannedUntil,
    long held,
    Optional<Instant> lapsesAt,
    long waiting,
    List<HeldLimit> limits) {

  /** What a key may hold. */
  public enum Kind {
    /** There is no key: its limits are full. */
    NONE,
    /** A lone rate, stored as a number like redis-cell's. */
    RATE,
    /** Any other limits. */
    LIMITS,
    /** A ban, and full limits. */
    BAN,
    /** Leases. */
    LEASES
  }

  /** Copies the limits. */
  public Inspection {
    limits = List.copyOf(limits);
  }

  /** Returns whether the key was banned when it was looked at. */
  public boolean banned() {
    return bannedUntil.filter(now::isBefore).isPresent();
  }
}
