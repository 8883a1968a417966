package io.github.redisthrottle;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.LongStream;

/**
 * What a key holds, as the server keeps it, and until when: a ban and what is used of limits, or leases. Instants are
 * ns since 1970.
 */
final class Held {
  static final long MS = 1_000_000;

  private static final int MOST_SWEPT = 16; // lapsed leases that a call removes
  private static final long SECOND = 1_000_000_000;
  private static final long MOST_SLACK = 3600; // seconds

  private final Map<String, Long> leases = new HashMap<>(); // when they lapse, in ms, by id; some may have
  private List<Kept> kept = List.of();
  private long bannedUntil;
  private long expiresMs;

  /** Returns what is used of limits: those that the call before named, in its order, then others. */
  List<Kept> kept() {
    return kept;
  }

  /** Returns until when it is banned; 0 without a ban. One that is over stays until something else is stored. */
  long bannedUntil() {
    return bannedUntil;
  }

  /** Tells whether there is anything. In the very ms of its expiry a key still exists. */
  boolean exists(long now) {
    return (isLimits() || isLeases()) && expiresMs >= Math.floorDiv(now, MS);
  }

  /** Returns when it expires, in ms. */
  long expiresMs() {
    return expiresMs;
  }

  boolean isLimits() {
    return !kept.isEmpty() || bannedUntil > 0;
  }

  boolean isLeases() {
    return !leases.isEmpty();
  }

  void clear() {
    kept = List.of();
    bannedUntil = 0;
    leases.clear();
    expiresMs = 0;
  }

  /** Stores what is used of limits, and a ban, in place of what there was. */
  void store(List<Kept> limits, long until) {
    kept = limits;
    bannedUntil = until;
  }

  /** Bans the key until an instant, and leaves the rest as it is. */
  void ban(long until) {
    bannedUntil = until;
    expire(until, true);
  }

  void liftBan() {
    bannedUntil = 0;
    if (kept.isEmpty() && !isLeases()) {
      clear();
    }
  }

  /** The key expires at an instant, which is unsigned, rounded up to a second. */
  void expire(long at, boolean noEarlier) {
    long ms = secondOf(at) * 1000;
    if (!noEarlier || ms > expiresMs) {
      expiresMs = ms;
    }
  }

  /**
   * The key is in use until an instant, which is unsigned: it stays up to a quarter longer, so that calls that follow
   * leave its expiry as it is.
   */
  void use(long until, long now) {
    long second = secondOf(until);
    long latest = (second + Math.min((second - now / SECOND) / 4, MOST_SLACK)) * 1000;
    if (expiresMs < second * 1000 || expiresMs > latest) {
      expiresMs = latest;
    }
  }

  private static long secondOf(long at) {
    return Long.divideUnsigned(at - 1, SECOND) + 1;
  }

  boolean holds(String id, long now) {
    Long lapses = leases.get(id);
    return lapses != null && lapses > Math.floorDiv(now, MS);
  }

  /** Returns when the leases that have not lapsed do, in ms, the soonest first. */
  long[] lapses(long now) {
    return lapsesMs().filter(at -> at > Math.floorDiv(now, MS)).sorted().toArray();
  }

  private LongStream lapsesMs() {
    return leases.values().stream().mapToLong(Long::longValue);
  }

  /** Stores a lease, and removes some that have lapsed. */
  void lease(String id, long lapses, long now) {
    List<String> lapsed =
        leases.entrySet().stream()
            .filter(one -> one.getValue() <= Math.floorDiv(now, MS) && !one.getKey().equals(id))
            .sorted(Map.Entry.<String, Long>comparingByValue().thenComparing(Map.Entry.comparingByKey()))
            .limit(MOST_SWEPT)
            .map(Map.Entry::getKey)
            .toList();
    leases.keySet().removeAll(lapsed);
    renew(id, lapses);
  }

  void renew(String id, long lapses) {
    leases.put(id, lapses);
    expireWithLast();
  }

  void release(String id, long now) {
    if (holds(id, now) && lapses(now).length == 1) {
      clear();
    }
    leases.remove(id);
    expireWithLast();
  }

  private void expireWithLast() {
    expiresMs = lapsesMs().max().orElse(0);
  }
}
