package io.github.redisthrottle;

import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.locks.ReentrantLock;
import org.jspecify.annotations.Nullable;

/** Decides in this process what the server decides, by this process's part of the limits. */
final class LocalLimits {
  private static final int KEYS = 100_000;

  /** The clock is counted from the start, so that nobody sets it. */
  private final long epoch = Windows.nanos(Instant.now()) - System.nanoTime();

  private final ReentrantLock lock = new ReentrantLock();
  private final int processes;
  private final boolean neverMore;
  private final Map<String, Held> kept;
  private final Engine engine;

  private LocalLimits(int processes, boolean neverMore, int keys) {
    this.processes = processes;
    this.neverMore = neverMore;
    this.kept = Engine.recent(keys);
    this.engine = new Engine(kept);
  }

  /** How they are made: the part of one of {@code processes}, for so many keys. */
  record Options(int processes, boolean neverMore, int keys) {
    static final Options DEFAULT = new Options(1, false, KEYS);

    Options {
      if (processes < 1) {
        throw new IllegalArgumentException("processes must be 1 or more, not " + processes);
      }
      if (keys < 1) {
        throw new IllegalArgumentException("keys must be 1 or more, not " + keys);
      }
    }

    LocalLimits make() {
      return new LocalLimits(processes, neverMore, keys);
    }
  }

  private long now() {
    return epoch + System.nanoTime();
  }

  /**
   * Decides a call. Where this process's part is too small for it, the answer is to come back when the server is tried
   * again.
   */
  Result decide(Call call, long untilRetryNs) {
    Call alone = alone(call);
    Optional<Call> part = share(alone, processes, !neverMore);
    Result own = part.map(this::ask).orElse(null);
    if (own != null && (own.allowed() || own.retryAfter().isPresent())) {
      return local(own.state()).done();
    }
    // It may be just the part that is too small.
    Result whole = new Engine(Engine.recent(alone.keys().size())).decide(alone, now());
    State.Draft draft = local((own == null ? whole : own).state());
    if (whole.limited() && whole.retryAfter().isEmpty()) {
      return draft.done();
    }
    long later = Math.max(1, -Math.floorDiv(-untilRetryNs, 1_000_000));
    draft.limited = true;
    draft.granted = 0;
    draft.retryAfterMs = later;
    draft.resetAfterMs = Math.max(draft.resetAfterMs, later);
    draft.nextAfterMs = Math.max(draft.nextAfterMs, later);
    return draft.done();
  }

  /** Renews, releases or settles a lease that was taken in this process; null if it was not. */
  @Nullable Result ended(Call call) {
    lock.lock();
    try {
      if (call.keyNames().stream().noneMatch(kept::containsKey)) {
        return null;
      }
    } finally {
      lock.unlock();
    }
    Result result = share(call, processes, !neverMore).map(this::ask).orElse(null);
    return result != null && found(call, result) ? local(result.state()).done() : null;
  }

  /** Returns whether a call that renews, releases or settles a lease found it. */
  static boolean found(Call call, Result result) {
    return result.allowed() && (call.verb() != Call.Verb.RELEASE || result.granted() != 0);
  }

  private Result ask(Call call) {
    lock.lock();
    try {
      return engine.decide(call, now());
    } finally {
      lock.unlock();
    }
  }

  private static State.Draft local(State state) {
    State.Draft draft = new State.Draft(state);
    draft.by = Result.By.LOCAL;
    return draft;
  }

  /** Returns what is decided here of a call: nobody stands in line in a process. */
  private static Call alone(Call call) {
    if (call.verb() != Call.Verb.WAIT) {
      return call.atOnceIfItWaits();
    }
    Call limit = Call.one(Call.Verb.LIMIT, call.keys().get(0)).cost(call.cost());
    return call.hasEach() ? limit.each() : limit;
  }

  /**
   * Returns a call with one process's part of its limits; empty if that is no unit. All processes together never let
   * more through than the limits do, unless {@code atLeastOne}. A rate is that many times as slow, exactly; capacities,
   * counts and slots are divided and rounded down, and spare units rounded up. What is said of the call, such as its
   * cost, is not divided.
   */
  static Optional<Call> share(Call call, int processes, boolean atLeastOne) {
    if (processes == 1) {
      return Optional.of(call);
    }
    List<Key> keys = new ArrayList<>();
    for (Key key : call.keys()) {
      List<Limit> limits = new ArrayList<>();
      for (Limit limit : key.limits()) {
        Limit part = share(limit, processes, atLeastOne);
        if (part == null) {
          return Optional.empty();
        }
        limits.add(part);
      }
      long slots = part(key.slots(), processes, atLeastOne);
      if (key.slots() > 0 && slots == 0) {
        return Optional.empty();
      }
      keys.add(new Key(key.name(), limits, slots, key.ttl(), key.leased()));
    }
    return Optional.of(call.withKeys(keys));
  }

  private static @Nullable Limit share(Limit limit, int processes, boolean atLeastOne) {
    if (limit.count() == 0) {
      return limit;
    }
    boolean rate = limit.kind() == Limit.Kind.RATE;
    long own = part(rate ? limit.capacity() : limit.count(), processes, atLeastOne);
    long spare = -Math.floorDiv(-limit.spare(), processes);
    if (own == 0) {
      return null;
    }
    if (!rate) {
      return limit.resized(own, limit.length(), spare);
    }
    if (limit.count() % processes == 0) {
      return limit.resized(limit.count() / processes, limit.length(), spare).burst(own);
    }
    try {
      return limit.resized(limit.count(), limit.length().times(processes), spare).burst(own);
    } catch (ArithmeticException | IllegalArgumentException e) {
      return null; // longer than any period can be
    }
  }

  private static long part(long units, int processes, boolean atLeastOne) {
    return units / processes >= 1 ? units / processes : atLeastOne && units > 0 ? 1 : 0;
  }
}
