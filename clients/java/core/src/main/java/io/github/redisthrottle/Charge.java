package io.github.redisthrottle;

/** How a call charges where there is less than its cost. Without one, a call that is denied charges nothing. */
public enum Charge {
  /** Takes what there is, at least one unit. */
  UP_TO("UPTO"),
  /** Charges a denied call as well, up to an empty bucket, so that a caller that keeps retrying stays blocked. */
  STRICT("STRICT"),
  /** Charges the cost into debt. */
  FORCE("FORCE");

  final String word;

  Charge(String word) {
    this.word = word;
  }
}
