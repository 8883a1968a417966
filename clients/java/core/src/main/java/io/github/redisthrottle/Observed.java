package io.github.redisthrottle;

import java.util.Objects;
import java.util.concurrent.CompletionStage;

/**
 * Tells somebody of each decision: a counter, a timer, a trace.
 *
 * <pre>{@code
 * Decider decider = Observed.of(guard, (call, result, error, ns) -> registry
 *     .timer("throttle.decisions", "verb", call.verb().name(), "outcome", Observed.outcome(result, error))
 *     .record(ns, TimeUnit.NANOSECONDS));
 * }</pre>
 */
public final class Observed implements Decider, AutoCloseable {
  private final Decider next;
  private final Observer observer;

  /** Is told of decisions, in the thread that has them. It must not block. */
  @FunctionalInterface
  public interface Observer {
    /**
     * Is told of a decision.
     *
     * @param call what was asked
     * @param result what was decided; null without a decision
     * @param error why there is no decision; null with one
     * @param ns how long it took, in ns
     */
    void decided(Call call, Result result, Throwable error, long ns);
  }

  private Observed(Decider next, Observer observer) {
    this.next = next;
    this.observer = Objects.requireNonNull(observer, "observer");
  }

  /** Returns one before a decider. */
  public static Observed of(Decider next, Observer observer) {
    return new Observed(next, observer);
  }

  /** Returns how a call went, as a label of a metric: allowed, limited, banned, outage, overload or mistake. */
  public static String outcome(Result result, Throwable error) {
    if (result != null) {
      return result.banned() ? "banned" : result.limited() ? "limited" : "allowed";
    }
    Throwable cause = Errors.unwrapped(error);
    return cause instanceof OutageException ? "outage" : cause instanceof OverloadException ? "overload" : "mistake";
  }

  @Override
  public CompletionStage<Result> decide(Call call) {
    if (call.verb() == Call.Verb.DENIED) {
      return next.decide(call); // it decides nothing; whoever denied those calls was observed
    }
    long began = System.nanoTime();
    CompletionStage<Result> decided = next.decide(call);
    decided.whenComplete((result, error) -> observer.decided(call, result, Errors.unwrapped(error), System.nanoTime() - began));
    return decided;
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
