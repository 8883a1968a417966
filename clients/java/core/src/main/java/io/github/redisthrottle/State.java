package io.github.redisthrottle;

import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/** What a {@link Result} holds. Times are in ms; -1 is never. */
record State(
    boolean limited,
    String key,
    int keyIndex,
    int rule,
    boolean banned,
    long limit,
    long remaining,
    long retryAfterMs,
    long resetAfterMs,
    long nextAfterMs,
    long granted,
    long waitMs,
    long lastsMs,
    Result.@Nullable Place shadow,
    List<Result> each,
    Result.By by,
    List<Optional<Result.Applied>> policies) {

  /** Begins with what most results leave out. */
  static Draft of(String key) {
    return new Draft(key);
  }

  /** Returns it in words, without its key. */
  String text() {
    return (limited ? "Denied[" : "Allowed[")
        + (banned ? "banned, " : "")
        + ("limit=" + limit + ", remaining=" + remaining)
        + (limited ? ", retryAfter=" + (retryAfterMs < 0 ? "never" : retryAfterMs + " ms") : "")
        + (by == Result.By.SERVER ? "" : ", by=" + by)
        + "]";
  }

  /** A state that is being filled in. */
  static final class Draft {
    boolean limited;
    String key;
    int keyIndex;
    int rule;
    boolean banned;
    long limit;
    long remaining;
    long retryAfterMs;
    long resetAfterMs;
    long nextAfterMs;
    long granted;
    long waitMs;
    long lastsMs;
    Result.@Nullable Place shadow;
    List<Result> each = List.of();
    Result.By by = Result.By.SERVER;
    List<Optional<Result.Applied>> policies = List.of();

    Draft(String key) {
      this.key = key;
    }

    Draft(State from) {
      limited = from.limited;
      key = from.key;
      keyIndex = from.keyIndex;
      rule = from.rule;
      banned = from.banned;
      limit = from.limit;
      remaining = from.remaining;
      retryAfterMs = from.retryAfterMs;
      resetAfterMs = from.resetAfterMs;
      nextAfterMs = from.nextAfterMs;
      granted = from.granted;
      waitMs = from.waitMs;
      lastsMs = from.lastsMs;
      shadow = from.shadow;
      each = from.each;
      by = from.by;
      policies = from.policies;
    }

    Result done() {
      return Result.of(
          new State(
              limited, key, keyIndex, rule, banned, limit, remaining, retryAfterMs, resetAfterMs, nextAfterMs, granted, waitMs,
              lastsMs, shadow, each, by, policies));
    }
  }
}
