package io.github.redisthrottle;

import java.time.Duration;
import java.util.concurrent.CompletionStage;

/**
 * The verbs of a {@link Limiter} without blocking: {@code limiter.async()}. Each stage completes with an
 * {@link OutageException}, an {@link OverloadException} or a {@link MistakeException} when there is no decision.
 */
public final class AsyncLimiter {
  private final Limiter limiter;

  AsyncLimiter(Limiter limiter) {
    this.limiter = limiter;
  }

  /** Decides any call. */
  public CompletionStage<Result> decide(Call call) {
    return limiter.decide(call);
  }

  /** As {@link Limiter#limit(String, Limit...)}. */
  public CompletionStage<Result> limit(String key, Limit... limits) {
    return decide(Call.limit(key, limits));
  }

  /** As {@link Limiter#limitAll}. */
  public CompletionStage<Result> limitAll(Keys keys) {
    return decide(Call.limitAll(keys));
  }

  /** As {@link Limiter#limitAny}. */
  public CompletionStage<Result> limitAny(Keys keys) {
    return decide(Call.limitAny(keys));
  }

  /** As {@link Limiter#peek}. */
  public CompletionStage<Result> peek(String key, Limit... limits) {
    return decide(Call.peek(key, limits));
  }

  /** As {@link Limiter#inspect}. */
  public CompletionStage<Inspection> inspect(String key) {
    return limiter.inspectAsync(key);
  }

  /**
   * As {@link Limiter#waitFor(String, Limit...)}: it completes when the units were taken. Cancelling its future gives
   * up the wait.
   */
  public CompletionStage<Result.Allowed> waitFor(String key, Limit... limits) {
    return take(Call.waitFor(key, limits));
  }

  /** As {@link Limiter#waitFor(String, Duration, Limit...)}. */
  public CompletionStage<Result.Allowed> waitFor(String key, Duration maxWait, Limit... limits) {
    return take(Call.waitFor(key, limits).maxWait(maxWait));
  }

  /** Decides a call, and fails with a {@link LimitedException} when it is denied. */
  public CompletionStage<Result.Allowed> take(Call call) {
    return Stages.map(decide(call), Result::orThrow);
  }

  /** As {@link Limiter#refund}. */
  public CompletionStage<Long> refund(String key, long units, Limit... limits) {
    return Stages.map(decide(Call.refund(key, limits).cost(units)), result -> -result.granted());
  }

  /** As {@link Limiter#ban}. */
  public CompletionStage<Duration> ban(String key, Duration duration) {
    return Stages.map(decide(Call.ban(key, duration)), Result::lasts);
  }

  /** As {@link Limiter#reset}. */
  public CompletionStage<Boolean> reset(String key) {
    return Stages.map(decide(Call.reset(key)), result -> result.granted() != 0);
  }

  /** As {@link Limiter#lease(String, Slots)}: end it with {@link Lease#releaseAsync}. */
  public CompletionStage<Lease> lease(String key, Slots slots) {
    return lease(Call.lease(key, slots));
  }

  /** As {@link Limiter#lease(Call)}. */
  public CompletionStage<Lease> lease(Call call) {
    return Lease.take(limiter, Limiter.named(call));
  }

  /** As {@link Limiter#admit(Keys)}: end it with {@link Admission#settleAsync}. */
  public CompletionStage<Admission> admit(Keys keys) {
    return admit(Call.limitAll(keys));
  }

  /** As {@link Limiter#admit(Call)}. */
  public CompletionStage<Admission> admit(Call call) {
    return Admission.take(limiter, Limiter.named(call));
  }

  /** As {@link Limiter#settle}. */
  public CompletionStage<Boolean> settle(Keys keys, String id) {
    return Stages.map(decide(Call.settle(keys).id(id)), Result::allowed);
  }
}
