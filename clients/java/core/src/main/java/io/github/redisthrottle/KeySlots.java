package io.github.redisthrottle;

/** The slots of a key, as of a call. */
final class KeySlots {
  final int keyIndex;
  final long slots;
  final boolean held; // the call is a retry of its holder
  final boolean limited;
  final long remaining;
  final long retryNs; // until one is free
  private final Held key;
  private final String id;
  private final long ttlMs;
  private final long now;

  KeySlots(Held key, int keyIndex, Key asked, String id, long now) {
    this.key = key;
    this.keyIndex = keyIndex;
    this.slots = asked.slots();
    this.id = id;
    this.now = now;
    this.ttlMs = asked.ttl() == null ? 0 : Durations.wholeMillis(asked.ttl(), "ttl") / Held.MS;
    this.held = key.holds(id, now);
    long free = slots - key.lapses(now).length;
    this.limited = !held && free <= 0;
    this.remaining = free <= 0 ? 0 : held ? free : free - 1;
    this.retryNs = !limited ? 0 : slots == 0 ? Usage.NEVER : nextNs();
  }

  /** Returns how long a lease of this call lasts, in ms. */
  long ttlMs() {
    return ttlMs;
  }

  /** Returns the time until the next lease lapses; 0 without one. */
  long nextNs() {
    long[] lapses = key.lapses(now);
    return lapses.length == 0 ? 0 : until(lapses[0]);
  }

  /** Returns the time until the last lease lapses; 0 without one. */
  long allNs() {
    long[] lapses = key.lapses(now);
    return lapses.length == 0 ? 0 : until(lapses[lapses.length - 1]);
  }

  private long until(long lapsesMs) {
    return Saturated.times(lapsesMs, Held.MS) - now;
  }

  /** Returns how many nobody holds. */
  long free() {
    return Math.max(slots - key.lapses(now).length, 0);
  }

  void take() {
    key.lease(id, lapses(), now);
  }

  void renew() {
    key.renew(id, lapses());
  }

  void release() {
    key.release(id, now);
  }

  private long lapses() {
    return Saturated.plus(-Math.floorDiv(-now, Held.MS), ttlMs);
  }
}
