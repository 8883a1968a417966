package io.github.redisthrottle;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.function.LongSupplier;

/**
 * Remembers denials, and answers the same call itself until its {@link Result#retryAfter} is over, or ten seconds. So a
 * caller that keeps asking while it is limited costs the server nothing.
 *
 * <pre>{@code
 * Limiter limiter = Limiter.over(Cached.of(Guard.of(Remote.over(connection), Guard.Policy.FAIL)));
 * }</pre>
 *
 * <p>Two calls are the same if they have the same keys, limits, cost and options. Allowed calls, errors, denials that
 * no waiting ends, all verbs but limit, and calls that charge a denied call, ban or take slots go to the server.
 * {@link Result#by} is CACHE then, and the times are counted down.
 *
 * <p>A refund, a ban, a reset and a settlement that pass through make it forget their keys. Of those in other processes
 * it learns nothing until ten seconds are over: {@link #forget} helps where you know better. The server is told of the
 * denials that it answers, for its CL.TOP.
 */
public final class Cached implements Decider, AutoCloseable {
  private static final int MOST = 10_000;
  private static final Duration MAX_AGE = Duration.ofSeconds(10);

  private final Decider next;
  private final LongSupplier clock;
  private final Denials denials;
  private final Reports reports;

  private Cached(Decider next, int most, Duration maxAge, LongSupplier clock) {
    this.next = next;
    this.clock = clock;
    this.reports = new Reports(next);
    this.denials = new Denials(most, "denials", maxAge, "maxAge", clock);
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
    Result remembered = denials.recall(words);
    if (remembered != null) {
      reports.count(remembered.key());
      return CompletableFuture.completedFuture(remembered);
    }
    return Stages.map(
        next.decide(call),
        result -> {
          denials.remember(words, call.keyNames(), result, asked);
          return result;
        });
  }

  /** Forgets the denials of all calls on a key, such as after a refund in another process. */
  public void forget(String key) {
    denials.forget(key);
  }

  /** Returns whether a denial of a call holds until its retryAfter. */
  private static boolean isRememberable(Call call) {
    boolean charges = call.charge() == Charge.STRICT || call.charge() == Charge.FORCE;
    return call.verb() == Call.Verb.LIMIT && !charges && call.ban() == null && call.id().isEmpty() && !call.leases();
  }

  static boolean givesBack(Call call) {
    return switch (call.verb()) {
      case REFUND, BAN, SETTLE, RESET -> true;
      default -> false;
    };
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
