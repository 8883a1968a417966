package io.github.redisthrottle;

import java.time.Duration;
import java.util.List;
import java.util.Objects;

/** A key of a call, with its limits, or with slots if it is leased. */
record Key(String name, List<Limit> limits, long slots, Duration ttl, boolean leased) {
  Key {
    Objects.requireNonNull(name, "key");
  }

  static Key of(String name, List<Limit> limits) {
    return new Key(name, limits, 0, null, false);
  }

  static Key of(String name) {
    return of(name, List.of());
  }

  /** Returns how many rules the server counts here: slots are one. */
  int rules() {
    return Math.max(limits.size(), 1);
  }
}
