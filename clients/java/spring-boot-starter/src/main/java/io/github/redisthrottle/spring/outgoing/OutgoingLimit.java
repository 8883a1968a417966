package io.github.redisthrottle.spring.outgoing;

import io.github.redisthrottle.Call;
import io.github.redisthrottle.Limit;
import io.github.redisthrottle.Limiter;
import io.github.redisthrottle.Result;
import io.github.redisthrottle.spring.Answers;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;

/** The limits of requests to another service. Processes with the same key in Redis share them. */
public final class OutgoingLimit {
  private final Limiter limiter;
  private final Answers answers;
  private final String key;
  private final List<Limit> limits;
  private final Duration maxWait;

  OutgoingLimit(Limiter limiter, Answers answers, String key, List<Limit> limits, Duration maxWait) {
    this.limiter = limiter;
    this.answers = answers;
    this.key = key;
    this.limits = limits;
    this.maxWait = maxWait;
  }

  /** Returns the same limits for a part of the requests, such as those of one user: each part has all of the units. */
  public OutgoingLimit of(String part) {
    if (part.isEmpty()) {
      throw new IllegalArgumentException("part: it is empty, and a request must count for somebody");
    }
    return new OutgoingLimit(limiter, answers, key + ":" + part, limits, maxWait);
  }

  /**
   * Takes a unit: at once, or in its turn within the longest wait.
   *
   * @throws io.github.redisthrottle.LimitedException if there is none by then
   * @throws io.github.redisthrottle.spring.UndecidedException if it could not be decided, and the answer to that is
   *     deny
   */
  public void take() {
    Result result;
    try {
      result = limiter.ask(call());
    } catch (RuntimeException e) {
      answers.letThrough(e);
      return;
    }
    var unused = result.orThrow();
  }

  /** As {@link #take}, without blocking. */
  public CompletionStage<Void> takeLater() {
    CompletableFuture<Void> taken = new CompletableFuture<>();
    CompletionStage<Result> deciding = limiter.decide(call());
    deciding.whenComplete(
        (result, error) -> {
          try {
            if (error == null) {
              var unused = result.orThrow();
            } else {
              answers.letThrough(error);
            }
            taken.complete(null);
          } catch (RuntimeException e) {
            taken.completeExceptionally(e);
          }
        });
    taken.whenComplete(
        (value, error) -> {
          if (taken.isCancelled()) {
            deciding.toCompletableFuture().cancel(true);
          }
        });
    return taken;
  }

  private Call call() {
    return maxWait.isZero() ? Call.limit(key, limits) : Call.waitFor(key, limits.toArray(Limit[]::new)).maxWait(maxWait);
  }
}
