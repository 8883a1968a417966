package io.github.redisthrottle;

import java.time.Duration;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/** A key of a call, with its limits, or with slots if it is leased. */
record Key(String name, List<Limit> limits, long slots, @Nullable Duration ttl, boolean leased) {
  Key {
    text(name, "key");
  }

  /** Returns a text if it is one. {@code what} is the argument that an error is about, which does not hold it. */
  static String text(String text, String what) {
    Objects.requireNonNull(text, what);
    if (hasHalfOfPair(text)) {
      throw new IllegalArgumentException(what + ": it has half of a surrogate pair, and all such texts would be one in UTF-8");
    }
    return text;
  }

  private static boolean hasHalfOfPair(String text) {
    for (int i = 0; i < text.length(); i++) {
      if (Character.isSurrogate(text.charAt(i))) { // rare: the slower way knows pairs
        return text.codePoints().anyMatch(point -> point >= Character.MIN_SURROGATE && point <= Character.MAX_SURROGATE);
      }
    }
    return false;
  }

  static Key of(String name, List<Limit> limits) {
    return new Key(name, limits, 0, null, false);
  }

  static Key of(String name) {
    return of(name, List.of());
  }

  /** Returns the name of the policy of its limits; empty without one. */
  String policy() {
    return limits.isEmpty() ? "" : limits.get(0).policyName();
  }

  /** Returns how many rules the server counts here: slots are one. */
  int rules() {
    return Math.max(limits.size(), 1);
  }
}
