package io.github.redisthrottle;

/** Arithmetic that ends at the largest number in place of going round. */
final class Saturated {
  private Saturated() {}

  static long plus(long a, long b) {
    long sum = a + b;
    return ((a ^ sum) & (b ^ sum)) < 0 ? (a < 0 ? Long.MIN_VALUE : Long.MAX_VALUE) : sum;
  }

  static long minus(long a, long b) {
    return b == Long.MIN_VALUE ? plus(plus(a, Long.MAX_VALUE), 1) : plus(a, -b);
  }

  static long times(long a, long b) {
    long high = Math.multiplyHigh(a, b);
    long low = a * b;
    return high == low >> 63 ? low : high < 0 ? Long.MIN_VALUE : Long.MAX_VALUE;
  }
}
