package io.github.redisthrottle;

import java.time.Duration;
import java.time.Instant;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import org.jspecify.annotations.Nullable;

/**
 * A limiter for tests, which decides in this process by the rules of the server. Its clock begins at midnight UTC of
 * 2000-01-01, and stands still until {@link #advance} or {@link #setTime}.
 *
 * <pre>{@code
 * FakeLimiter fake = new FakeLimiter();
 * Mailer mailer = new Mailer(fake.limiter()); // two messages a minute
 * mailer.send("ann");
 * mailer.send("ann");
 * assertThrows(TryLater.class, () -> mailer.send("ann"));
 * fake.advance(ofSeconds(30));
 * mailer.send("ann");
 * }</pre>
 *
 * <p>It is a {@link Decider}, for code that takes one; {@link #limiter} has the verbs. With JUnit,
 * {@code @ExtendWith(ThrottleExtension.class)} gives each test one as a parameter. Callers that wait are let in by
 * {@link #advance}, in order of arrival and of priority; groups do not take turns. Timers of the tested code, such as
 * those that renew leases, go by the clock of the machine. It is safe for use by several threads.
 */
public final class FakeLimiter implements Decider, Inspector {
  private static final int MOST_ASKED = 10_000;
  private static final Instant MIDNIGHT = Instant.parse("2000-01-01T00:00:00Z");
  private static final Instant LAST = Instant.parse("2261-12-31T00:00:00Z");

  private final Map<String, Held> keys = new HashMap<>();
  private final Engine engine = new Engine(keys);
  private final Deque<Asked> asked = new ArrayDeque<>();
  private final List<Waiting> line = new ArrayList<>();
  private final List<Runnable> hung = new ArrayList<>();
  private final Limiter limiter = Limiter.over(this);
  private final Told told = new Told();
  private final Map<String, String> policies = new HashMap<>();
  private final PolicyTable table = new PolicyTable("the policies", (level, line) -> {});
  private long now = Windows.nanos(MIDNIGHT);
  private Fault fault = Fault.NONE;
  private long faulty; // for how many calls yet

  private @Nullable ThrottleException error;

  private enum Fault {
    NONE,
    FAIL,
    HANG,
    LOSE
  }

  /** Makes one that has decided nothing yet. */
  public FakeLimiter() {}

  /** A call that it was asked to decide. */
  public static final class Asked {
    private final Call call;
    private final Instant at;
    private volatile @Nullable Result result;
    private volatile @Nullable Throwable error;

    private Asked(Call call, Instant at) {
      this.call = call;
      this.at = at;
    }

    /** Returns the call. */
    public Call call() {
      return call;
    }

    /** Returns what time it was for the limiter. */
    public Instant at() {
      return at;
    }

    /** Returns its result; empty of a call that has none yet, or that failed. */
    public Optional<Result> result() {
      return Optional.ofNullable(result);
    }

    /** Returns why it failed; empty of a call that did not. */
    public Optional<Throwable> error() {
      return Optional.ofNullable(error);
    }

    /** Returns the words that a server would have been sent: {@code CL.LIMIT user:42 RATE 5/1s COMPACT}. */
    @Override
    public String toString() {
      return String.join(" ", Words.of(call));
    }
  }

  /** What can go wrong. A new fault takes the place of the one before. */
  public interface Faults {
    /** Fails calls with an {@link OutageException}, and nothing is decided. */
    default void fail() {
      fail(new OutageException("the server is away", null));
    }

    /** Fails calls with an exception of yours, such as a {@link MistakeException}, and nothing is decided. */
    void fail(ThrottleException error);

    /**
     * Keeps calls waiting, as a server that stands still does. They are decided later, also those whose caller has
     * left.
     */
    void hang();

    /**
     * Decides calls and loses the replies: they end with an {@link OutageException}, and units are charged all the
     * same.
     */
    void loseReplies();
  }

  /** A call in line. */
  private static final class Waiting {
    final Call call;
    final CompletableFuture<Result> future;
    final long since;
    final long until; // when its time is over
    long at = -1; // when its turn is, if that is certain
    @Nullable Result result;

    Waiting(Call call, CompletableFuture<Result> future, long since) {
      this.call = call;
      this.future = future;
      this.since = since;
      this.until = Saturated.plus(since, Durations.wholeMillis(Objects.requireNonNull(call.maxWait()), "maxWait"));
    }
  }

  /** Returns the verbs over this decider. */
  public Limiter limiter() {
    return limiter;
  }

  /** Returns what time it is for the limiter. */
  public Instant now() {
    return told.locked(() -> Windows.instant(now));
  }

  /** Lets time pass. Callers in line have their turns on the way. */
  public void advance(Duration duration) {
    long ns = Durations.nanos(duration, "duration");
    if (ns < 0) {
      throw new IllegalArgumentException("duration: " + duration + " is negative: setTime sets the clock back");
    }
    told.run(
        () -> {
          long ends = Saturated.plus(now, ns);
          for (long next = soonest(); next < ends; next = soonest()) {
            now = next;
            serve();
          }
          now = ends;
          serve();
        });
  }

  /** Sets the clock, forward or back, as an operator sets that of a server: from 1970 to 2261. */
  public void setTime(Instant time) {
    if (time.isBefore(Instant.EPOCH) || time.isAfter(LAST)) {
      throw new IllegalArgumentException("time: " + time + " must be from 1970 to 2261");
    }
    told.run(
        () -> {
          now = Windows.nanos(time);
          serve();
        });
  }

  /**
   * Sets a policy, as {@code HSET throttle:policies} does for a limiter with {@link Policies}: at once, until
   * {@link #reset}.
   *
   * @param field such as api, api/premium:* or api/user:42
   * @param value such as RATE 60/m, or NONE; null takes the policy back. What cannot be read is an
   *     {@link IllegalArgumentException}
   */
  public void policy(String field, String value) {
    if (value != null) {
      PolicyValue.parse(PolicyField.parse(field).name(), field, value);
    }
    told.run(
        () -> {
          if (value == null) {
            policies.remove(field);
          } else {
            policies.put(field, value);
          }
          table.read(policies);
        });
  }

  /** Returns what it was asked, in order: the last 10,000 calls. By a policy that is NONE nothing is asked. */
  public List<Asked> asked() {
    return told.locked(() -> List.copyOf(asked));
  }

  /** Returns how many calls have no answer yet: their callers wait in line, or the server hangs. */
  public int blocked() {
    return told.locked(() -> line.size() + hung.size());
  }

  /** Fails calls with an {@link OutageException} until {@link #heal} or the next fault. Nothing is decided. */
  public void fail() {
    next(Long.MAX_VALUE).fail();
  }

  /** Fails calls with an exception of yours until {@link #heal} or the next fault. Nothing is decided. */
  public void fail(ThrottleException with) {
    next(Long.MAX_VALUE).fail(with);
  }

  /**
   * Keeps calls waiting until {@link #heal} or the next fault. They are decided then, also those whose caller has left.
   */
  public void hang() {
    next(Long.MAX_VALUE).hang();
  }

  /** Decides calls and loses the replies until {@link #heal} or the next fault: units are charged all the same. */
  public void loseReplies() {
    next(Long.MAX_VALUE).loseReplies();
  }

  /** Ends every fault. */
  public void heal() {
    told.run(
        () -> {
          set(Fault.NONE, 0, null);
        });
  }

  /**
   * Forgets everything, as if it were new: keys, faults, policies, what it was asked, the time. Callers in line get an
   * {@link OutageException}.
   */
  public void reset() {
    fail(new OutageException("the limiter of the test was reset", null));
    heal();
    told.run(
        () -> {
          keys.clear();
          asked.clear();
          policies.clear();
          table.read(policies);
          now = Windows.nanos(MIDNIGHT);
        });
  }

  /** Returns the faults of the next {@code calls} calls alone. */
  public Faults next(long calls) {
    if (calls < 1) {
      throw new IllegalArgumentException("calls must be 1 or more, not " + calls);
    }
    return new Faults() {
      @Override
      public void fail(ThrottleException with) {
        begin(Fault.FAIL, Objects.requireNonNull(with, "error"));
      }

      @Override
      public void hang() {
        begin(Fault.HANG, null);
      }

      @Override
      public void loseReplies() {
        begin(Fault.LOSE, lost());
      }

      private void begin(Fault kind, @Nullable ThrottleException with) {
        told.run(
            () -> {
              set(kind, calls, with);
            });
      }
    };
  }

  @Override
  public CompletionStage<Result> decide(Call call) {
    return PolicyCall.decide(call.checked(), table.lookup(), this::decideAsAsked, (level, line) -> {});
  }

  private CompletionStage<Result> decideAsAsked(Call call) {
    CompletableFuture<Result> future = new CompletableFuture<>();
    told.run(
        () -> {
          Asked one = new Asked(call, Windows.instant(now));
          asked.add(one);
          if (asked.size() > MOST_ASKED) {
            asked.remove();
          }
          future.whenComplete(
              (result, failed) -> {
                one.result = result;
                one.error = failed;
              });
          answer(call, future);
        });
    return future;
  }

  /** Tells what a key holds, as a server does. It is no call: {@link #asked} has calls alone. */
  @Override
  public CompletionStage<Inspection> inspect(String key) {
    CompletableFuture<Inspection> future = new CompletableFuture<>();
    Key.text(key, "key");
    told.run(
        () -> {
          meet(future, () -> tell(key, future), () -> {});
        });
    return future;
  }

  private void tell(String key, CompletableFuture<Inspection> future) {
    long waiting = line.stream().filter(one -> one.call.key().equals(key) && one.at < 0).count();
    Inspection inspection = engine.inspect(key, now, waiting);
    told.add(() -> future.complete(inspection));
  }

  private static OutageException lost() {
    return new OutageException("the connection was lost before the reply came", null);
  }

  private void answer(Call call, CompletableFuture<Result> future) {
    meet(future, () -> run(call, future), () -> run(call, new CompletableFuture<>()));
  }

  /** Answers what is asked, unless there is a fault. {@code unheard} answers it to nobody. */
  private void meet(CompletableFuture<?> future, Runnable answer, Runnable unheard) {
    Fault kind = faulty > 0 ? fault : Fault.NONE;
    ThrottleException with = error;
    faulty -= kind == Fault.NONE ? 0 : 1;
    switch (kind) {
      case FAIL -> told.add(() -> future.completeExceptionally(with));
      case HANG -> hung.add(answer);
      case LOSE -> {
        unheard.run();
        told.add(() -> future.completeExceptionally(with));
      }
      case NONE -> answer.run();
    }
  }

  private void run(Call call, CompletableFuture<Result> future) {
    if (!call.waits()) {
      try {
        Result result = engine.decide(call, now);
        told.add(() -> future.complete(result));
      } catch (MistakeException e) {
        told.add(() -> future.completeExceptionally(e));
      }
      serve();
      return;
    }
    Waiting waiting = new Waiting(call, future, now);
    if (future.isDone()) {
      return; // a server drops who has left
    }
    int place = 0;
    while (place < line.size() && line.get(place).call.priority() >= call.priority()) {
      place++;
    }
    line.add(place, waiting);
    future.whenComplete((result, failed) -> leave(waiting));
    serve();
  }

  /** A caller in line that leaves returns what was reserved for it. */
  private void leave(Waiting waiting) {
    told.run(
        () -> {
          if (line.remove(waiting)) {
            if (waiting.result != null) {
              engine.decide(Call.one(Call.Verb.REFUND, waiting.call.keys().get(0)).cost(waiting.call.cost()), now);
            }
            serve();
          }
        });
  }

  /** Lets in the first in line. Nobody overtakes another caller of the same key. */
  private void serve() {
    Set<String> taken = new HashSet<>();
    for (Waiting waiting : List.copyOf(line)) {
      try {
        serve(waiting, taken);
      } catch (MistakeException e) { // the key has become one of another kind
        line.remove(waiting);
        told.add(() -> waiting.future.completeExceptionally(e));
      }
    }
  }

  private void serve(Waiting waiting, Set<String> taken) {
    Call call = waiting.call;
    boolean rates = call.verb() == Call.Verb.WAIT && call.keys().get(0).limits().stream().allMatch(limit -> limit.kind() == Limit.Kind.RATE);
    if (rates && waiting.result == null) { // rates reserve their units at once
      Result reserved = engine.decide(reserve(call), now);
      if (reserved.limited()) {
        end(waiting, reserved);
        return;
      }
      waiting.at = Saturated.plus(now, reserved.waited().toNanos());
      waiting.result = reserved;
    }
    if (waiting.result != null) {
      if (waiting.at <= now) {
        end(waiting, waiting.result);
      }
      return;
    }
    if (taken.contains(call.key())) {
      return;
    }
    Result result = engine.decide(call, now);
    if (result.allowed() || result.retryAfter().isEmpty() || now >= waiting.until) {
      end(waiting, result);
    } else {
      taken.add(call.key());
    }
  }

  private static Call reserve(Call call) {
    Call reserve = Call.one(Call.Verb.LIMIT, call.keys().get(0)).cost(call.cost()).maxWait(Objects.requireNonNull(call.maxWait()));
    return call.hasEach() ? reserve.each() : reserve;
  }

  private void end(Waiting waiting, Result result) {
    line.remove(waiting);
    State.Draft draft = new State.Draft(result.state());
    draft.waitMs = (now - waiting.since) / 1_000_000;
    Result waited = draft.done();
    told.add(() -> waiting.future.complete(waited));
  }

  /** Returns the next instant at which somebody in line may have a turn. */
  private long soonest() {
    long soonest = Long.MAX_VALUE;
    for (Waiting waiting : line) {
      for (long next : new long[] {turn(waiting), waiting.until}) {
        soonest = next > now ? Math.min(soonest, next) : soonest;
      }
    }
    return soonest;
  }

  /** Returns when a caller in line may have its turn; -1 for never. */
  private long turn(Waiting waiting) {
    if (waiting.result != null) {
      return waiting.at;
    }
    Call call = waiting.call;
    // A lease that would be granted now is already.
    Call look = call.verb() == Call.Verb.LEASE ? call.atOnce() : Call.one(Call.Verb.PEEK, call.keys().get(0)).cost(call.cost());
    try {
      long ms = engine.decide(look, now).retryAfter().map(Duration::toMillis).orElse(-1L);
      return ms < 0 ? -1 : Saturated.plus(now, Math.max(ms, 1) * 1_000_000);
    } catch (MistakeException e) { // of a caller that is not the first in line
      return -1;
    }
  }

  private void set(Fault kind, long calls, @Nullable ThrottleException with) {
    List<Runnable> released = fault == Fault.HANG && (kind == Fault.NONE || calls == Long.MAX_VALUE) ? List.copyOf(hung) : List.of();
    hung.removeAll(released);
    fault = kind;
    faulty = calls;
    error = with;
    released.forEach(Runnable::run);
    if (calls == Long.MAX_VALUE && with != null) { // also who stands in line learns of it
      for (Waiting waiting : List.copyOf(line)) {
        line.remove(waiting);
        told.add(() -> waiting.future.completeExceptionally(with));
      }
    }
  }
}
