package io.github.redisthrottle;

import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.LongSupplier;

/**
 * Remembers denials, and answers the same call itself until its {@link Result#retryAfter} is over, or ten seconds. So a caller that keeps
 * asking while it is limited costs the server nothing.
 *
 * <pre>{@code
 * Limiter limiter = Limiter.over(Cached.of(Guard.of(Remote.over(connection), Guard.Policy.FAIL)));
 * }</pre>
 *
 * <p>Two calls are the same if they have the same keys, limits, cost and options. Allowed calls, errors, denials that no waiting ends, all
 * verbs but limit, and calls that charge a denied call, ban or take slots go to the server. {@link Result#by} is CACHE then, and the times
 * are counted down.
 *
 * <p>A refund, a ban, a reset and a settlement that pass through make it forget their keys. Of those in other processes it learns nothing
 * until ten seconds are over: {@link #forget} helps where you know better. The server does not count denials that it answers.
 */
public final class Cached implements Decider, AutoCloseable {
  private static final int MOST = 10_000;
  private static final Duration MAX_AGE = Duration.ofSeconds(10);

  private final Decider next;
  private final int most;
  private final long maxAgeNs;
  private final LongSupplier clock;
  private final ReentrantLock lock = new ReentrantLock();
  private final Map<List<String>, Denial> denials;
  private final Map<String, Long> forgotten = new LinkedHashMap<>();
  private boolean forgotAny;
  private long forgottenAll;

  private record Denial(List<String> keys, Result result, long asked, long answered, long until) {}

  private Cached(Decider next, int most, Duration maxAge, LongSupplier clock) {
    this.next = next;
    this.most = most;
    this.maxAgeNs = Durations.nanos(maxAge, "maxAge");
    this.clock = clock;
    if (most < 1) {
      throw new IllegalArgumentException("denials must be 1 or more, not " + most);
    }
    if (maxAgeNs <= 0) {
      throw new IllegalArgumentException("maxAge: " + maxAge + " is not positive");
    }
    this.denials = new LinkedHashMap<>(16, 0.75f, true);
  }

  /** Returns one before a decider, such as a {@link Guard}: remembered denials hold during an outage, too. */
  public static Cached of(Decider next) {
    return of(next, MOST, MAX_AGE);
  }

  /**
   * As {@link #of(Decider)}.
   *
   * @param denials how many are remembered at most, by default 10,000; those used least recently are forgotten
   * @param maxAge how long one is remembered at most, by default 10 s
   */
  public static Cached of(Decider next, int denials, Duration maxAge) {
    return of(next, denials, maxAge, System::nanoTime);
  }

  static Cached of(Decider next, int denials, Duration maxAge, LongSupplier clock) {
    return new Cached(next, denials, maxAge, clock);
  }

  @Override
  public CompletionStage<Result> decide(Call call) {
    call.checked();
    if (!isRememberable(call)) {
      CompletionStage<Result> result = next.decide(call);
      return givesBack(call) ? result.whenComplete((value, error) -> call.keyNames().forEach(this::forget)) : result;
    }
    long asked = clock.getAsLong();
    List<String> words = Words.of(call);
    Result remembered = recall(words);
    if (remembered != null) {
      return CompletableFuture.completedFuture(remembered);
    }
    return Stages.map(
        next.decide(call),
        result -> {
          remember(call, words, result, asked);
          return result;
        });
  }

  /** Forgets the denials of all calls on a key, such as after a refund in another process. */
  public void forget(String key) {
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

  /** Returns whether a denial of a call holds until its retryAfter. */
  private static boolean isRememberable(Call call) {
    boolean charges = call.charge() == Charge.STRICT || call.charge() == Charge.FORCE;
    return call.verb() == Call.Verb.LIMIT && !charges && call.ban() == null && call.id().isEmpty() && !call.leases();
  }

  private static boolean givesBack(Call call) {
    return switch (call.verb()) {
      case REFUND, BAN, SETTLE, RESET -> true;
      default -> false;
    };
  }

  private void remember(Call call, List<String> words, Result result, long asked) {
    State state = result.state();
    if (!state.limited() || state.by() != Result.By.SERVER || state.retryAfterMs() <= 0) {
      return;
    }
    long lasts = state.retryAfterMs() >= maxAgeNs / 1_000_000 ? maxAgeNs : state.retryAfterMs() * 1_000_000;
    lock.lock();
    try {
      denials.put(words, new Denial(call.keyNames(), result, asked, clock.getAsLong(), asked + lasts));
      if (denials.size() > most) {
        denials.remove(denials.keySet().iterator().next());
      }
    } finally {
      lock.unlock();
    }
  }

  private Result recall(List<String> words) {
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

  @Override
  public String nodeOf(String key) {
    return next.nodeOf(key);
  }

  @Override
  public void close() {
    Stages.close(next);
  }
}
