package io.github.redisthrottle;

import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * Denials that are remembered until their retryAfter, each under the words of its call. It is safe for use by several
 * threads.
 */
final class Denials {
  private final int most;
  private final long maxAgeNs;
  private final LongSupplier clock;
  private final ReentrantLock lock = new ReentrantLock();
  private final Map<List<String>, Denial> denials = new LinkedHashMap<>(16, 0.75f, true);
  private final Map<String, Long> forgotten = new LinkedHashMap<>();
  private boolean forgotAny;
  private long forgottenAll;

  private record Denial(List<String> keys, Result result, long asked, long answered, long until) {}

  /** The names are those of the arguments, for errors. */
  Denials(int most, String mostName, Duration maxAge, String ageName, LongSupplier clock) {
    this.most = most;
    this.maxAgeNs = Durations.nanos(maxAge, ageName);
    this.clock = clock;
    if (most < 1) {
      throw new IllegalArgumentException(mostName + " must be 1 or more, not " + most);
    }
    if (maxAgeNs <= 0) {
      throw new IllegalArgumentException(ageName + ": " + maxAge + " is not positive");
    }
  }

  /** Forgets the denials of all calls on a key. */
  void forget(String key) {
    lock.lock();
    try {
      forgotten.remove(key);
      forgotten.put(key, clock.getAsLong());
      if (forgotten.size() > most) { // too many keys to tell which: everything of that time goes
        String eldest = forgotten.keySet().iterator().next();
        forgottenAll = forgotten.remove(eldest);
        forgotAny = true;
      }
    } finally {
      lock.unlock();
    }
  }

  /** Remembers the result of a call that was sent at {@code asked}, if it is a denial by the server that ends. */
  void remember(List<String> words, List<String> keys, Result result, long asked) {
    State state = result.state();
    if (!state.limited() || state.by() != Result.By.SERVER || state.retryAfterMs() <= 0) {
      return;
    }
    long lasts = state.retryAfterMs() >= maxAgeNs / 1_000_000 ? maxAgeNs : state.retryAfterMs() * 1_000_000;
    lock.lock();
    try {
      denials.put(words, new Denial(keys, result, asked, clock.getAsLong(), asked + lasts));
      if (denials.size() > most) {
        denials.remove(denials.keySet().iterator().next());
      }
    } finally {
      lock.unlock();
    }
  }

  /** Returns the denial of a call as it reads by now; null without one. */
  @Nullable Result recall(List<String> words) {
    lock.lock();
    try {
      Denial denial = denials.get(words);
      if (denial == null) {
        return null;
      }
      long now = clock.getAsLong();
      if (now - denial.until >= 0 || isForgotten(denial)) {
        denials.remove(words);
        return null;
      }
      return after(denial.result, Math.max(now - denial.answered, 0) / 1_000_000);
    } finally {
      lock.unlock();
    }
  }

  private boolean isForgotten(Denial denial) {
    if (forgotAny && denial.asked - forgottenAll <= 0) {
      return true;
    }
    return denial.keys.stream().map(forgotten::get).anyMatch(at -> at != null && denial.asked - at <= 0);
  }

  /** Returns a denial as it reads when some ms have passed. */
  private static Result after(Result result, long ms) {
    State.Draft draft = new State.Draft(result.state());
    draft.by = Result.By.CACHE;
    draft.retryAfterMs = draft.retryAfterMs < 0 ? -1 : Math.max(draft.retryAfterMs - ms, 0);
    draft.resetAfterMs = Math.max(draft.resetAfterMs - ms, 0);
    // A unit has come where nothing is left of nextAfter; by the end of retryAfter another one has, at the latest.
    draft.nextAfterMs = draft.nextAfterMs - ms > 0 ? draft.nextAfterMs - ms : draft.retryAfterMs;
    draft.each = draft.each.stream().map(each -> after(each, ms)).toList();
    return draft.done();
  }
}
