package io.github.redisthrottle;

import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.LongAdder;
import org.jspecify.annotations.Nullable;

/**
 * Protects a service from an outage of Redis. After five failures in a row the server is left alone, so that a dead one
 * costs microseconds instead of a timeout; once a second one call tries it, and a policy decides until it is back.
 *
 * <pre>{@code
 * Limiter limiter = Limiter.over(Guard.of(Remote.over(connection), Guard.Policy.OPEN));
 * }</pre>
 *
 * <p>A limiter on a connection has one with {@link Policy#FAIL}. The policy decides limits, peeks, waits, leases and
 * admissions. What is about the state on the server fails with the outage: refunds, bans, resets, and renewals,
 * releases and settlements of what the server has granted. In a cluster each server is guarded by itself. Only outages
 * count: a mistake, an overload of this process and a caller that leaves say nothing about the server. The log has one
 * line when an outage begins, and one when it ends.
 */
public final class Guard implements Decider, AutoCloseable {
  /** What becomes of a call while the server is away. */
  public enum Policy {
    /** It fails with an {@link OutageException} at once: the caller decides. */
    FAIL,
    /** It is let through. Nothing is known of the limits: the numbers of the result are 0. */
    OPEN,
    /** It is denied. {@link Result#retryAfter} is the time until the server is tried again. */
    CLOSED,
    /**
     * It is decided in this process, by its part of the limits: see {@link Guard#processes}. Each process begins with
     * full limits, and knows nothing of the others. Nobody waits in line: a wait is answered at once.
     */
    LOCAL
  }

  private static final Logger LOG = System.getLogger("io.github.redisthrottle");
  private static final int FAILURES = 5;
  private static final Duration PAUSE = Duration.ofSeconds(1);

  private final Decider next;
  private final Policy policy;
  private final int failures;
  private final long pauseNs;
  private final LocalLimits.Options localOptions;
  private final @Nullable LocalLimits local; // null with another policy
  private final Map<String, Server> servers = new ConcurrentHashMap<>();

  /** A server and its breaker. */
  private static final class Server {
    final String name;
    final Breaker breaker;
    final AtomicBoolean out = new AtomicBoolean();
    final LongAdder instead = new LongAdder();
    volatile long began;
    volatile @Nullable Throwable last;

    Server(String name, Breaker breaker) {
      this.name = name;
      this.breaker = breaker;
    }
  }

  private Guard(Decider next, Policy policy, int failures, Duration pause, LocalLimits.Options localOptions) {
    this.next = Objects.requireNonNull(next, "next");
    this.policy = Objects.requireNonNull(policy, "policy");
    this.failures = failures;
    this.pauseNs = Durations.nanos(pause, "pause");
    this.localOptions = localOptions;
    this.local = policy == Policy.LOCAL ? localOptions.make() : null;
    if (failures < 1) {
      throw new IllegalArgumentException("failures must be 1 or more, not " + failures);
    }
    if (pauseNs <= 0) {
      throw new IllegalArgumentException("pause: " + pause + " is not positive");
    }
  }

  /** Returns one before a decider, such as a {@link Remote}. */
  public static Guard of(Decider next, Policy policy) {
    return of(next, policy, FAILURES, PAUSE);
  }

  /**
   * As {@link #of(Decider, Policy)}.
   *
   * @param failures after how many failures in a row the server is left alone, or four times as many in ten seconds if
   *     at least half of all calls failed: 1 or more
   * @param pause after which time one call tries it again
   */
  public static Guard of(Decider next, Policy policy, int failures, Duration pause) {
    return new Guard(next, policy, failures, pause, LocalLimits.Options.DEFAULT);
  }

  /**
   * Returns one whose policy {@link Policy#LOCAL} gives this process its part of the limits: a rate that is so many
   * times as slow, and counts, capacities and slots divided and rounded down. A process has one unit at least, so all
   * together may exceed a limit that is smaller than {@code processes} by that many units, unless {@link #neverMore}.
   * By default there is one process.
   */
  public Guard processes(int processes) {
    return with(new LocalLimits.Options(processes, localOptions.neverMore(), localOptions.keys()), "processes");
  }

  /**
   * Returns one whose policy {@link Policy#LOCAL} gives no process a unit of a limit that is smaller than
   * {@link #processes}.
   */
  public Guard neverMore() {
    return with(new LocalLimits.Options(localOptions.processes(), true, localOptions.keys()), "neverMore");
  }

  /**
   * Returns one whose policy {@link Policy#LOCAL} remembers so many keys, by default 100,000. When there are more,
   * those used least recently begin with full limits.
   */
  public Guard keys(int keys) {
    return with(new LocalLimits.Options(localOptions.processes(), localOptions.neverMore(), keys), "keys");
  }

  private Guard with(LocalLimits.Options options, String what) {
    if (policy != Policy.LOCAL) {
      throw new IllegalArgumentException(what + ": it goes with the policy LOCAL, not with " + policy);
    }
    return new Guard(next, policy, failures, Duration.ofNanos(pauseNs), options);
  }

  /** Returns whether a server is left alone, or just being tried again. */
  public boolean isOut() {
    return servers.values().stream().anyMatch(server -> server.breaker.isOut());
  }

  @Override
  public CompletionStage<Result> decide(Call call) {
    call.checked();
    Result here = local == null ? null : endedHere(local, call);
    return here == null ? guarded(call) : unlessFound(call, guarded(call), here);
  }

  /** Ends or renews a lease that was taken in this process; null if it was not. */
  private static @Nullable Result endedHere(LocalLimits local, Call call) {
    return switch (call.verb()) {
      case RENEW, RELEASE, SETTLE -> local.ended(call);
      default -> null;
    };
  }

  /** Returns what the server says of a lease, unless it does not know it, or is away. */
  private static CompletionStage<Result> unlessFound(Call call, CompletionStage<Result> there, Result here) {
    return there.handle((result, error) -> error == null && LocalLimits.found(call, result) ? result : here);
  }

  private CompletionStage<Result> guarded(Call call) {
    Server server = servers.computeIfAbsent(next.nodeOf(call.key()), name -> new Server(name, new Breaker(failures, pauseNs, System::nanoTime)));
    if (call.waits() && server.breaker.isOut()) { // one that waits does not try a server that is away
      return Stages.chain(attempt(server, probe(call)), probed -> afterProbe(server, call, probed));
    }
    return attempt(server, call);
  }

  private CompletionStage<Result> afterProbe(Server server, Call call, Result probed) {
    if (probed.by() == Result.By.LOCAL) { // a lease is taken, and of a wait it was a look
      return CompletableFuture.completedFuture(call.verb() == Call.Verb.LEASE ? probed
          : Objects.requireNonNull(local).decide(call, server.breaker.untilRetry()));
    }
    boolean answers = probed.by() == Result.By.POLICY || (call.verb() == Call.Verb.LEASE && probed.allowed());
    return answers ? CompletableFuture.completedFuture(probed) : next.decide(call);
  }

  /**
   * Returns a call that is answered at once, and that tries the server for one that waits. A lease that it takes is the
   * answer.
   */
  private static Call probe(Call call) {
    return call.verb() == Call.Verb.WAIT ? Call.one(Call.Verb.PEEK, call.keys().get(0)).cost(call.cost()) : call.atOnce();
  }

  private CompletionStage<Result> attempt(Server server, Call call) {
    long entered = server.breaker.enter();
    if (entered == Breaker.REFUSED) {
      String text = "the server is left alone for a while, after: " + message(server.last);
      return instead(server, call, new OutageException(text, server.last, false));
    }
    CompletionStage<Result> sent;
    try {
      sent = next.decide(call);
    } catch (RuntimeException e) {
      server.breaker.leave(entered, Breaker.Outcome.NOTHING);
      throw e;
    }
    CompletableFuture<Result> result = new CompletableFuture<>();
    Stages.cancels(result, sent);
    sent.whenComplete(
        (value, failure) -> {
          Throwable error = Errors.unwrapped(failure);
          judge(server, entered, value, error);
          if (error instanceof OutageException outage) {
            Stages.copy(instead(server, call, outage), result);
          } else if (error != null) {
            result.completeExceptionally(error);
          } else {
            Stages.complete(result, value);
          }
        });
    return result;
  }

  private static void judge(Server server, long entered, @Nullable Result value, @Nullable Throwable error) {
    Breaker.Outcome outcome = Breaker.Outcome.NOTHING;
    if (error instanceof OutageException) {
      outcome = Breaker.Outcome.FAILURE;
      server.last = error;
    } else if (error == null ? Objects.requireNonNull(value).by() == Result.By.SERVER : error instanceof MistakeException && server.breaker.isOut()) {
      outcome = Breaker.Outcome.SUCCESS; // a reply that is an error ends an outage: the server is there
    }
    Breaker.State state = server.breaker.leave(entered, outcome);
    if (state == Breaker.State.OPEN && server.out.compareAndSet(false, true)) {
      server.began = System.nanoTime();
      LOG.log(Level.ERROR, "redis-throttle: Redis is out of reach{0}: {1}", node(server), message(server.last));
    } else if (state == Breaker.State.CLOSED && server.out.compareAndSet(true, false)) {
      long ms = (System.nanoTime() - server.began) / 1_000_000;
      LOG.log(Level.WARNING, "redis-throttle: Redis is back{0} after {1} ms: {2} calls were decided without it", node(server), ms, server.instead.sumThenReset());
    }
  }

  private static String node(Server server) {
    return server.name.isEmpty() ? "" : " (" + server.name + ")";
  }

  private static String message(@Nullable Throwable error) {
    return error == null ? "nothing is known" : String.valueOf(error.getMessage());
  }

  /** Returns what the policy makes of an outage. */
  private CompletionStage<Result> instead(Server server, Call call, OutageException outage) {
    server.instead.increment();
    boolean isNew =
        switch (call.verb()) {
          case LIMIT, PEEK, WAIT, LEASE -> true;
          default -> false;
        };
    if (!isNew || policy == Policy.FAIL) {
      return CompletableFuture.failedFuture(outage);
    }
    if (local != null) {
      try {
        return CompletableFuture.completedFuture(local.decide(call, server.breaker.untilRetry()));
      } catch (MistakeException e) {
        return CompletableFuture.failedFuture(e);
      }
    }
    State.Draft draft = State.of(call.key());
    draft.by = Result.By.POLICY;
    draft.limited = policy == Policy.CLOSED;
    draft.retryAfterMs = draft.limited ? Math.max(1, -Math.floorDiv(-server.breaker.untilRetry(), 1_000_000)) : 0;
    return CompletableFuture.completedFuture(draft.done());
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
