package io.github.redisthrottle;

/** Waits in ns, the longest of which is {@link Usage#NEVER}. */
final class Waits {
  private Waits() {}

  static long longer(long a, long b) {
    return a == Usage.NEVER || b == Usage.NEVER ? Usage.NEVER : Math.max(a, b);
  }

  static boolean isLonger(long a, long b) {
    return b != Usage.NEVER && (a == Usage.NEVER || a > b);
  }

  /** Returns by how much a wait is longer than a caller accepts. */
  static long beyond(long wait, long accepted) {
    return wait == Usage.NEVER ? wait : Math.max(wait - accepted, 0);
  }

  /** Returns a length in ms, rounded up. */
  static long ms(long ns) {
    return -Math.floorDiv(-ns, 1_000_000);
  }

  /** Returns when to try again, in ms; -1 for never. */
  static long retryMs(long ns) {
    return ns == Usage.NEVER ? -1 : ms(ns);
  }
}
