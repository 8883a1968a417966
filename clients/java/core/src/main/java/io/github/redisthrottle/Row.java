package io.github.redisthrottle;

/** A limit of a call, with what is used of it. */
final class Row {
  final int keyIndex;
  final int rule;
  final Limit limit;
  final Limit.Id id;
  final long spare;
  final boolean shadow;
  final boolean zero; // a limit of 0, of which nothing is kept

  @SuppressWarnings("NullAway.Init") // its stack has it
  Usage usage;

  boolean stored; // the key holds it, or is to
  boolean changed;
  long charged;

  Row(int keyIndex, int rule, Limit limit, long spare) {
    this.keyIndex = keyIndex;
    this.rule = rule;
    this.limit = limit;
    this.id = limit.id();
    this.spare = spare;
    this.shadow = limit.isShadow();
    this.zero = limit.count() == 0;
  }

  boolean isRate() {
    return limit.kind() == Limit.Kind.RATE && !zero;
  }

  Kept kept() {
    return new Kept(id, usage.stored());
  }

  /** Returns what a call of this cost asks of the limit. */
  long units(long cost) {
    return limit.takenAt(cost);
  }

  long left() {
    return Math.max(usage.available() - spare, 0);
  }

  /** Returns the time until there are units and, unless they are 0, those to spare. */
  long waitFor(long units) {
    return units == 0 ? 0 : usage.retryAfter(Saturated.plus(units, spare));
  }

  /** Returns a wait, or less where the limit cannot be charged so late. */
  long longestWait(long wait) {
    return Math.min(wait, usage.longestWait());
  }

  /** Returns what is left for this caller, who has to spare some. */
  Usage.Standing standing() {
    Usage.Standing all = usage.standing();
    if (spare == 0) {
      return all;
    }
    if (spare >= all.capacity()) {
      return new Usage.Standing(all.capacity(), 0, 0, 0);
    }
    return all.available() < spare
        ? new Usage.Standing(all.capacity(), 0, all.resetNs(), usage.retryAfter(spare + 1))
        : new Usage.Standing(all.capacity(), all.available() - spare, all.resetNs(), all.nextNs());
  }
}
