package io.github.redisthrottle;

import java.time.Duration;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;
import org.jspecify.annotations.Nullable;

/**
 * A slot that is held until it is closed. It is renewed in the background, three times within its ttl.
 *
 * <pre>{@code
 * try (Lease lease = limiter.lease("reports", Slots.of(3, ofMinutes(1)), ofSeconds(10))) {
 *   for (Page page : pages) {
 *     lease.check(); // stop when the lease was lost
 *     work(page);
 *   }
 * }
 * }</pre>
 *
 * <p>After the ttl the slot of a process that has died is free. A release that meets an outage or an overload is
 * repeated in the background until the lease lapses. Closing a lease that was lost throws a {@link LeaseLostException}.
 */
public final class Lease implements AutoCloseable {
  /**
   * How long a lease lasts at first. It is extended to its ttl as soon as the holder has the reply: until then nobody
   * knows whether there is a holder, and a call that the server runs after its caller has left must not shut the slot
   * for long.
   */
  private static final long FIRST_NS = TimeUnit.SECONDS.toNanos(3);

  /** For how long after that a lease is given back that nobody knows of: the server may grant it yet. */
  private static final long STALE_NS = TimeUnit.SECONDS.toNanos(5);

  private final Decider decider;
  private final Later later;
  private final Renewals renewals;
  private final String key;
  private final String id;
  private final long ttlNs;
  private final long firstNs;
  private final Result result;
  private final ReentrantLock lock = new ReentrantLock();
  private final CompletableFuture<Void> lost = new CompletableFuture<>();
  private boolean ended;
  private boolean forever;
  private long until;
  private long lapses;
  private Renewals.@Nullable Renewal renewal;

  private Lease(Limiter limiter, Call call, long ttlNs, long sent, Result result) {
    this.decider = limiter;
    this.later = limiter.later();
    this.renewals = limiter.renewals();
    this.key = call.key();
    this.id = call.id();
    this.ttlNs = ttlNs;
    this.firstNs = firstOf(ttlNs);
    this.result = result;
    if (result.by() == Result.By.POLICY) { // no server knows of it: there is nothing to renew, and nothing to give back
      forever = true;
      ended = true;
      return;
    }
    // The ttl begins when the slot is granted: after the wait, which was rounded up.
    believe(sent + Math.max(result.waited().toNanos() - 1_000_000, 0), firstNs);
    schedule(ttlNs > firstNs ? 0 : firstNs / 3);
  }

  private static long firstOf(long ttlNs) {
    return Math.min(ttlNs, FIRST_NS);
  }

  /** Takes the slot of a call under its id. */
  static CompletionStage<Lease> take(Limiter limiter, Call call) {
    Key key = call.keys().get(0);
    long ttlNs = Durations.nanos(Objects.requireNonNull(key.ttl()), "ttl");
    long first = firstOf(ttlNs);
    Call taking = call.withKeys(java.util.List.of(new Key(key.name(), java.util.List.of(), key.slots(), Duration.ofNanos(first), true)));
    limiter.later().forget(call.id());
    long sent = System.nanoTime();
    CompletionStage<Result> decided = limiter.decide(taking);
    CompletableFuture<Lease> lease = Stages.map(decided, result -> new Lease(limiter, call, ttlNs, sent, result.orThrow()));
    lease.whenComplete(
        (taken, error) -> {
          // The server may have granted it all the same, unless it said itself what is wrong. One that stood still runs
          // what it finds in its sockets in any order: one reply that there was no lease does not do.
          if (error != null && !(error instanceof LimitedException) && Errors.mayHaveRun(error)) {
            limiter.later().add(Call.release(call.key()).id(call.id()), first + STALE_NS, 2);
          }
        });
    return lease;
  }

  /** Returns the name of the holder. */
  public String id() {
    return id;
  }

  /** Returns the result of the call that took the slot. */
  public Result result() {
    return result;
  }

  /** Returns whether somebody else may have the slot. */
  public boolean isLost() {
    lock.lock();
    try {
      return !forever && until - System.nanoTime() <= 0;
    } finally {
      lock.unlock();
    }
  }

  /** Throws a {@link LeaseLostException} if somebody else may have the slot. Call it between the steps of the work. */
  public void check() {
    if (isLost()) {
      throw lostError();
    }
  }

  /** Runs something as soon as the lease is lost, such as to cancel the work; never after it was released. */
  public void onLost(Runnable action, Executor executor) {
    var unused = lost.thenRunAsync(action, executor);
  }

  /** Gives the slot back, and throws a {@link LeaseLostException} if it was lost. */
  @Override
  public void close() {
    boolean wasLost = isLost();
    boolean first = !Stages.await(this::releaseAsync);
    if (wasLost && !first) {
      throw lostError();
    }
  }

  /**
   * Gives the slot back. If that meets an outage or an overload, it goes on in the background until the lease lapses.
   */
  public void release() {
    Stages.await(this::releaseAsync);
  }

  /** As {@link #release}. Returns whether it was held till now. */
  public CompletionStage<Boolean> releaseAsync() {
    long left;
    lock.lock();
    try {
      if (ended) {
        return CompletableFuture.completedFuture(false);
      }
      ended = true;
      left = lapses - System.nanoTime();
      until = lapses = System.nanoTime();
      if (renewal != null) {
        renewals.cancel(renewal);
      }
    } finally {
      lock.unlock();
    }
    Call release = Call.release(key).id(id);
    // Copied, since who leaves cancels what it was given, and it is repeated all the same.
    return decider
        .decide(release)
        .handle(
            (result, error) -> {
              Throwable cause = Errors.unwrapped(error);
              if (cause != null && Errors.mayRepeat(cause)) {
                later.add(release, left, 1);
              } else if (cause instanceof RuntimeException mistake) {
                throw mistake;
              }
              return true;
            })
        .toCompletableFuture()
        .copy();
  }

  /** Renews it no more. It reached nobody, and whoever asked for it has left: {@link #take} gives it back. */
  void forget() {
    lock.lock();
    try {
      ended = true;
      if (renewal != null) {
        renewals.cancel(renewal);
      }
    } finally {
      lock.unlock();
    }
  }

  private void schedule(long ns) {
    lock.lock();
    try {
      if (!ended) {
        renewal = renewals.after(ns, this::renew);
      }
    } finally {
      lock.unlock();
    }
  }

  private void renew() {
    if (isLost()) {
      lose();
      return;
    }
    long sent = System.nanoTime();
    Stages.ask(() -> decider.decide(Call.renew(key, Duration.ofNanos(ttlNs)).id(id)), new CompletableFuture<>())
        .whenComplete(
            (renewed, error) -> {
              if (error != null) {
                schedule(Math.min(firstNs / 10, Math.max(until - System.nanoTime(), 0) + 1)); // until the lease lapses
              } else if (renewed.limited()) {
                lose();
              } else {
                believe(sent, ttlNs);
                schedule(ttlNs / 3);
              }
            });
  }

  private void lose() {
    lock.lock();
    try {
      if (ended) {
        return;
      }
      until = lapses = System.nanoTime();
    } finally {
      lock.unlock();
    }
    lost.complete(null);
  }

  /** Sets until when the holder takes the lease for its own: a little less, since timers of a busy process are late. */
  private void believe(long began, long ns) {
    lock.lock();
    try {
      if (!ended) {
        lapses = began + ns;
        until = began + ns / 20 * 19;
      }
    } finally {
      lock.unlock();
    }
  }

  private static LeaseLostException lostError() {
    return new LeaseLostException("the lease has lapsed: its slot may be somebody else's", null);
  }
}
