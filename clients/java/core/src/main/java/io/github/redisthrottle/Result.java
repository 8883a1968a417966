package io.github.redisthrottle;

import io.github.redisthrottle.connection.Handover;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.jspecify.annotations.Nullable;

/**
 * The outcome of a call, and the state after it of the limit that decided: {@link Allowed} or {@link Denied}. Times are
 * whole milliseconds, rounded up.
 */
public abstract sealed class Result permits Result.Allowed, Result.Denied {
  /** Where a call was decided. */
  public enum By {
    /** By the server. */
    SERVER,
    /** By a remembered denial. */
    CACHE,
    /** By units that were taken before. */
    BATCH,
    /** By what a guard does in an outage: nothing is known of the limits. */
    POLICY,
    /** By the limits of this process, in an outage. */
    LOCAL,
    /** By a policy that is NONE, so that everything passes: there are no limits ({@link Policies}). */
    NONE
  }

  private final State state;
  private final AtomicReference<@Nullable Runnable> ifLost = new AtomicReference<>();

  private Result(State state) {
    this.state = state;
  }

  /** A call that was let through. */
  public static final class Allowed extends Result {
    private Allowed(State state) {
      super(state);
    }
  }

  /** A call that was denied; of a renewal and a settlement, that there was nothing any more. */
  public static final class Denied extends Result {
    private Denied(State state) {
      super(state);
    }
  }

  static Result of(State state) {
    return state.limited() ? new Denied(state) : new Allowed(state);
  }

  /** Returns whether the call was let through. */
  public boolean allowed() {
    return !state.limited();
  }

  /** Returns whether the call was denied. */
  public boolean limited() {
    return state.limited();
  }

  /** Returns the key that decided, was charged or is banned. */
  public String key() {
    return state.key();
  }

  /** Returns the index of that key in the call. */
  public int keyIndex() {
    return state.keyIndex();
  }

  /** Returns the index in that key's limits of the limit that decided; 0 of a banned key. */
  public int rule() {
    return state.rule();
  }

  /** Returns whether a ban denied the call, and no limit. */
  public boolean banned() {
    return state.banned();
  }

  /** Returns how many units that limit holds when it is full, or how many slots there are. */
  public long limit() {
    return state.limit();
  }

  /** Returns how many units could be taken right now, or how many slots are free. */
  public long remaining() {
    return state.remaining();
  }

  /**
   * Returns the time until the same call can succeed if nobody else asks: 0 of a call that was let through, empty for
   * never.
   */
  public Optional<Duration> retryAfter() {
    return state.retryAfterMs() < 0 ? Optional.empty() : Optional.of(Duration.ofMillis(state.retryAfterMs()));
  }

  /** Returns the time until the limit is full. */
  public Duration resetAfter() {
    return Duration.ofMillis(state.resetAfterMs());
  }

  /** Returns the time until there is one unit more; 0 when the limit is full. */
  public Duration nextAfter() {
    return Duration.ofMillis(state.nextAfterMs());
  }

  /** Returns how many units were charged. If it is negative, units were returned. */
  public long granted() {
    return state.granted();
  }

  /** Returns how long the caller has to hold its request ({@link Call#maxWait}), or how long it has waited. */
  public Duration waited() {
    return Duration.ofMillis(state.waitMs());
  }

  /** Returns how long a lease lasts if it is not renewed, or how long a key is banned. */
  public Duration lasts() {
    return Duration.ofMillis(state.lastsMs());
  }

  /** Returns the limit on trial that would have denied the call, if one would have. */
  public Optional<Place> shadowed() {
    return Optional.ofNullable(state.shadow());
  }

  /** Returns every limit by itself, of a call with {@link Call#each}. */
  public List<Result> each() {
    return state.each();
  }

  /** Returns where it was decided. */
  public By by() {
    return state.by();
  }

  /**
   * Returns what the policies changed: for each key of the call nothing, or the policy whose limits counted. Empty
   * where they changed nothing.
   */
  public List<Optional<Applied>> policies() {
    return state.policies();
  }

  /**
   * Returns the limits that decided: those of a policy where one counted, else those of the call.
   *
   * @param limits those of each key of the call, as {@link Call#limits} has them
   */
  public List<List<Limit>> inForce(List<List<Limit>> limits) {
    List<Optional<Applied>> policies = state.policies();
    if (policies.isEmpty()) {
      return limits;
    }
    List<List<Limit>> inForce = new ArrayList<>(limits);
    for (int i = 0; i < policies.size(); i++) {
      int key = i;
      policies.get(i).ifPresent(applied -> inForce.set(key, applied.limits()));
    }
    return inForce;
  }

  /** Returns the result, or throws a {@link LimitedException} when the call was denied. */
  public Allowed orThrow() {
    if (this instanceof Denied denied) {
      throw new LimitedException(denied);
    }
    return (Allowed) this;
  }

  /**
   * Blocks until the same call can succeed if nobody else asks. A result that is not limited needs no waiting. Callers
   * that do so come in no order; {@link Limiter#waitFor} has one.
   *
   * @throws LimitedException if it never can
   * @throws CallInterruptedException if the thread is interrupted, which keeps its interrupted status
   */
  public void untilRetry() {
    Stages.await(this::untilRetryAsync);
  }

  /** As {@link #untilRetry}, without blocking. Cancelling its future ends the wait. */
  public CompletionStage<Void> untilRetryAsync() {
    if (this instanceof Denied denied && state.retryAfterMs() < 0) {
      return CompletableFuture.failedFuture(new LimitedException(denied));
    }
    CompletableFuture<Void> over = new CompletableFuture<>();
    return Handover.of(over.completeOnTimeout(null, state.limited() ? state.retryAfterMs() : 0, TimeUnit.MILLISECONDS));
  }

  @Override
  public String toString() {
    return state.text();
  }

  /** Says what is to be done if the result reaches nobody, because its caller has left meanwhile. */
  void ifLost(Runnable action) {
    ifLost.set(action);
  }

  /** Tells that the result reached nobody. */
  void lost() {
    Runnable action = ifLost.getAndSet(null);
    if (action != null) {
      action.run();
    }
  }

  State state() {
    return state;
  }

  /**
   * A limit of a call.
   *
   * @param key the name of its key
   * @param keyIndex the index of the key in the call
   * @param rule the index of the limit in the limits of the key
   */
  public record Place(String key, int keyIndex, int rule) {}

  /**
   * A policy that counted in place of the limits in the code.
   *
   * @param name the name of the policy
   * @param field the field of the hash that counted, such as api/user:42
   * @param limits the limits that decided; none if the policy is NONE
   */
  public record Applied(String name, String field, List<Limit> limits) {
    /** Copies the limits. */
    public Applied {
      limits = List.copyOf(limits);
    }
  }
}
