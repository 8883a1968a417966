package io.github.redisthrottle;

import io.github.redisthrottle.connection.Handover;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * Takes units from the server by the batch, and hands them out in the process: for keys with thousands of calls a
 * second. Callers that come at the same time share one call to the server.
 *
 * <pre>{@code
 * Guard guard = Guard.of(Remote.over(connection), Guard.Policy.FAIL);
 * Batched batched = Batched.of(guard, Batched.Options.DEFAULT.processes(4));
 * try (Limiter limiter = Limiter.over(batched)) { // closing it returns what is left
 *   limiter.limit("hot", rate(10_000, ofSeconds(1)));
 * }
 * }</pre>
 *
 * <p><b>What holds.</b> A unit is charged on the server before it is handed out, and handed out once, up to
 * {@code maxAge} after it was charged. So all processes together never hand out more than the server let through. In
 * any interval they hand out at most what the limits let through in one that is longer by {@code maxAge}, and at most
 * {@code units} for each process more than the limits let through in it.
 *
 * <p>With {@link Options#processes} the bound is the limit itself: every call has {@code units} times {@code processes}
 * added to the {@link Limit#spare} of its limits. All calls on the key have to go through a Batched like this one, in
 * each process with the same limits. Less can be had at once then: a rate with a burst of 1000, 100 units and 4
 * processes lets bursts of 600 through. A limit of which nothing would be left is an {@link IllegalArgumentException},
 * and so is a window, or a fixed limit beside others, of which less than half would be left. One exception remains: a
 * server that stands still for so long that a refund is given up, and executes it later all the same, lets the units of
 * the refund through in addition. A fixed limit that is the only one needs none of this: its units end with their
 * window.
 *
 * <p><b>What it withholds.</b> It holds {@code units} for each process and key at most, for {@code maxAge} at most:
 * another process may be limited although there are units left here. The first batch of a key is one unit. Batches
 * double while they are used up, and shrink to what was used when they are not. Units that are left after
 * {@code maxAge} are returned, and {@link #close} returns the rest. A process that crashes leaves its units charged.
 *
 * <p><b>What is not batched.</b> All verbs but limit, calls on several keys, calls that cost 0 or more than
 * {@code units}, with options beside the cost, and with limits that have {@link Limit#take} or {@link Limit#shadow}.
 * Nor is a key for {@code maxAge} after it was decided without the server. Denials are remembered as by {@link Cached}.
 * {@link Result#by} of a result from a batch is BATCH; it has the times of the call that fetched it, counted down. A
 * batch is fetched to the end when the caller that needed it leaves, since others may wait for it.
 */
public final class Batched implements Decider, AutoCloseable {
  /** For how long a return of units is tried: it matters to nobody who waits. */
  private static final long GIVE_BACK_NS = 1_000_000_000;

  /** How far a time in a result is rounded up. */
  private static final long REPORTED_NS = 1_000_000;

  private static final Set<Call.Verb> ASKS = Set.of(Call.Verb.LIMIT, Call.Verb.PEEK, Call.Verb.WAIT);

  private final Decider next;
  private final Options options;
  private final long maxAgeNs;
  private final long reserve;
  private final LongSupplier clock;
  private final Timer timer;
  private final Denials denials;
  private final Reports reports;
  private final Map<List<String>, Pot> pots = new HashMap<>();
  private final Told told = new Told();
  private int busy; // fetches and returns under way
  private CompletableFuture<Void> idle = CompletableFuture.completedFuture(null); // when none is
  private boolean closed;

  /** Runs something after some ns. */
  @FunctionalInterface
  interface Timer {
    void after(long ns, Runnable act);
  }

  /**
   * How units are fetched. Each method of {@link #DEFAULT} returns a changed copy.
   *
   * @param units how many units of a key are held at most, by default 100
   * @param maxAge how long a unit is held at most, by default 100 ms
   * @param processes how many processes take batches at the same time at most, each with one Batched of these units;
   *     count a new process beside the old one while it takes over. 0, the default, does without: see {@link Batched}
   *     for what holds
   * @param keys how many keys have units at a time, by default 10,000. Calls on others go to the server, one by one
   * @param denialAge how long a denial is remembered at most, by default 10 s
   * @param onError is told when units could not be returned. They stay charged. By default nobody is
   */
  public record Options(long units, Duration maxAge, long processes, int keys, Duration denialAge, Consumer<Throwable> onError) {
    /** A good default. */
    public static final Options DEFAULT = new Options(100, Duration.ofMillis(100), 0, 10_000, Duration.ofSeconds(10), error -> {});

    /** Checks all of them. */
    public Options {
      if (units < 1) {
        throw new IllegalArgumentException("units must be 1 or more, not " + units);
      }
      if (Durations.nanos(maxAge, "maxAge") <= 0) {
        throw new IllegalArgumentException("maxAge: " + maxAge + " is not positive");
      }
      if (processes < 0) {
        throw new IllegalArgumentException("processes must be 0 or more, not " + processes);
      }
      Objects.requireNonNull(onError, "onError");
    }

    /** Returns them with so many units at most. */
    public Options units(long most) {
      return new Options(most, maxAge, processes, keys, denialAge, onError);
    }

    /** Returns them with another longest age of units. */
    public Options maxAge(Duration longest) {
      return new Options(units, longest, processes, keys, denialAge, onError);
    }

    /** Returns them for so many processes. */
    public Options processes(long most) {
      return new Options(units, maxAge, most, keys, denialAge, onError);
    }

    /** Returns them for so many keys. */
    public Options keys(int most) {
      return new Options(units, maxAge, processes, most, denialAge, onError);
    }

    /** Returns them with another longest age of denials. */
    public Options denialAge(Duration longest) {
      return new Options(units, maxAge, processes, keys, longest, onError);
    }

    /** Returns them with another listener. */
    public Options onError(Consumer<Throwable> listener) {
      return new Options(units, maxAge, processes, keys, denialAge, listener);
    }
  }

  /** A call that waits for a batch. */
  private static final class Waiter {
    final Call call;
    final long came;
    final Executor to = Handover.caller(); // what it does next keeps nobody else from an answer
    final CompletableFuture<Result> future = new CompletableFuture<>();
    boolean answered;
    boolean exact; // a batch has not done: only the server knows when it can be had

    Waiter(Call call, long came) {
      this.call = call;
      this.came = came;
    }

    boolean isDone() {
      return answered || future.isDone();
    }
  }

  /** The units of one key and its limits. */
  private static final class Pot {
    final List<String> words;
    final Key key;
    final Key asked; // the same, with more to spare
    final boolean fixed; // its limit is a lone fixed one
    long units; // to hand out
    long until; // when they end
    long counted; // until when the server counts them
    long used; // handed out since the last batch came
    long giving; // being given back
    @Nullable Result batch; // what the last batch came with
    long came;
    long size = 1; // of the next batch
    long direct; // until when the pot is passed by
    final List<Waiter> waiters = new ArrayList<>(); // in order of arrival
    boolean working; // somebody fetches for them
    boolean stopped; // until what is being given back is
    boolean timed; // a timer runs

    Pot(List<String> words, Key key, Key asked, long now) {
      this.words = words;
      this.key = key;
      this.asked = asked;
      this.fixed = isLoneFixed(key.limits());
      this.until = this.counted = this.direct = now;
    }
  }

  /** What is asked of the server for the first waiter of a pot. */
  private record Fetch(Waiter first, Call call, long need, long asked) {}

  Batched(Decider next, Options options, LongSupplier clock, Timer timer) {
    this.next = Objects.requireNonNull(next, "next");
    this.options = options;
    this.maxAgeNs = Durations.nanos(options.maxAge, "maxAge");
    this.reserve = Saturated.times(options.units, options.processes);
    this.clock = clock;
    this.timer = timer;
    this.reports = new Reports(next);
    this.denials = new Denials(options.keys, "keys", options.denialAge, "denialAge", clock);
  }

  /** Returns one before a decider, such as a {@link Guard}. Closing it closes the decider, if it can be closed. */
  public static Batched of(Decider next) {
    return of(next, Options.DEFAULT);
  }

  /** As {@link #of(Decider)}, with options. */
  public static Batched of(Decider next, Options options) {
    return new Batched(next, options, System::nanoTime, (ns, act) -> CompletableFuture.delayedExecutor(ns, TimeUnit.NANOSECONDS).execute(act));
  }

  @Override
  public CompletionStage<Result> decide(Call call) {
    call.checked();
    if (!batches(call)) {
      return direct(call);
    }
    CompletionStage<Result> answer = told.locked(() -> answer(call, clock.getAsLong()));
    if (answer == null) {
      return direct(call);
    }
    answer.whenComplete(
        (result, error) -> {
          if (error == null && result.limited() && result.by() == Result.By.CACHE) {
            reports.count(result.key());
          }
        });
    return answer; // itself, so that who leaves cancels it
  }

  /** Forgets the denials of all calls on a key, such as after a refund in another process. Units of the key stay. */
  public void forget(String key) {
    denials.forget(key);
  }

  /** Returns what is left, and closes the decider behind. */
  @Override
  public void close() {
    told.locked(() -> closed = true);
    Stages.await(this::whenIdle); // what is fetched for those who wait is given back as well
    told.run(
        () -> {
          long now = clock.getAsLong();
          for (Pot pot : pots.values()) {
            pot.until = now;
            endOld(pot, now);
          }
        });
    Stages.await(this::whenIdle);
    Stages.close(next);
  }

  private CompletionStage<Void> whenIdle() {
    return told.locked(() -> idle.copy());
  }

  @Override
  public String nodeOf(String key) {
    return next.nodeOf(key);
  }

  private static boolean isLoneFixed(List<Limit> limits) {
    return limits.size() == 1 && limits.get(0).kind() == Limit.Kind.FIXED;
  }

  /** Returns whether units of a batch serve for a call. */
  private boolean batches(Call call) {
    return call.verb() == Call.Verb.LIMIT
        && !call.several()
        && call.cost() >= 1
        && call.cost() <= options.units
        && call.charge() == null
        && call.ban() == null
        && call.maxWait() == null
        && !call.hasEach()
        && !call.leases()
        && call.keys().get(0).limits().stream().allMatch(limit -> !limit.takesOwn() && !limit.isShadow() && limit.capacity() >= 1);
  }

  /** Returns a key as it is asked, so that its limits hold with all that the processes hold. */
  private Key spared(Key key) {
    if (reserve == 0 || isLoneFixed(key.limits())) {
      return key;
    }
    return new Key(key.name(), key.limits().stream().map(this::spared).toList(), key.slots(), key.ttl(), key.leased());
  }

  private Limit spared(Limit limit) {
    long room = limit.capacity() - limit.spare();
    if (limit.capacity() < 1) {
      return limit; // the decider behind says so
    }
    String units = "batched: " + limit + ": units x processes, " + reserve + ", leave ";
    if (room <= reserve) {
      throw new IllegalArgumentException(units + "nothing of the limit");
    }
    if (limit.kind() != Limit.Kind.RATE && reserve > room / 2) {
      long fewer = Math.max(room / 2 / options.processes, 1);
      throw new IllegalArgumentException(units + "only " + (room - reserve) + " of " + room + " units; take at most half, such as units of " + fewer);
    }
    return limit.spared(reserve);
  }

  /** Hands a call on that is not batched. */
  private CompletionStage<Result> direct(Call call) {
    if (reserve > 0 && ASKS.contains(call.verb())) {
      return next.decide(call.withKeys(call.keys().stream().map(this::spared).toList()));
    }
    CompletionStage<Result> result = next.decide(call);
    return Cached.givesBack(call) ? result.whenComplete((value, error) -> call.keyNames().forEach(this::forget)) : result;
  }

  /** Answers a call, at once or with a batch; null where the decider behind is to be asked. */
  private @Nullable CompletionStage<Result> answer(Call call, long now) {
    List<String> words = Words.of(call.cost(1));
    long units = call.cost();
    Pot pot = pots.get(words);
    if (pot != null) {
      if (closed || now - pot.direct < 0) {
        return null;
      }
      endOld(pot, now);
      if (pot.units >= units) {
        return CompletableFuture.completedFuture(handOut(pot, units, now, Result.By.BATCH));
      }
    }
    Result denied = denials.recall(need(words, units - (pot == null ? 0 : pot.units)));
    if (denied != null) {
      return CompletableFuture.completedFuture(denied);
    }
    if (pot == null) {
      if (closed || pots.size() >= options.keys) {
        return null;
      }
      pot = new Pot(words, call.keys().get(0), spared(call.keys().get(0)), now);
      pots.put(words, pot);
    }
    Waiter waiter = new Waiter(call, now);
    pot.waiters.add(waiter);
    if (!pot.working) {
      pot.working = true;
      count(1);
      Pot working = pot;
      told.add(() -> work(working));
    }
    return waiter.future;
  }

  /** Tells apart denials of different numbers of units. */
  private static List<String> need(List<String> words, long units) {
    List<String> need = new ArrayList<>(words);
    need.add(String.valueOf(units));
    return need;
  }

  /** Hands out units that are there. What reaches nobody goes back into the pot. */
  private Result handOut(Pot pot, long units, long now, Result.By by) {
    pot.units -= units;
    pot.used += units;
    State.Draft draft = new State.Draft(Objects.requireNonNull(pot.batch).state());
    long passedMs = Math.max(now - pot.came, 0) / 1_000_000;
    draft.resetAfterMs = Math.max(draft.resetAfterMs - passedMs, 0);
    draft.nextAfterMs = Math.max(draft.nextAfterMs - passedMs, Math.min(1, draft.resetAfterMs));
    draft.remaining = Math.min(draft.remaining + pot.units, draft.limit);
    draft.granted = units;
    draft.by = by;
    Result result = draft.done();
    result.ifLost(() -> told.run(() -> putBack(pot, units)));
    return result;
  }

  private void putBack(Pot pot, long units) {
    pot.used -= Math.min(units, pot.used);
    pot.units += units;
    endOld(pot, clock.getAsLong());
  }

  /** Fetches batches until nobody waits. */
  private void work(Pot pot) {
    for (boolean goesOn = true; goesOn; ) {
      Fetch fetch = told.locked(() -> begin(pot));
      if (fetch == null) {
        return;
      }
      CompletableFuture<Result> sent = Stages.ask(() -> Handover.shared(() -> next.decide(fetch.call)), new CompletableFuture<>()); // others wait, too
      boolean here = sent.isDone(); // it is handled in this loop then, so that the stack does not grow
      goesOn = here;
      sent.whenComplete(
          (result, error) -> {
            told.run(() -> end(pot, fetch, result, Errors.unwrapped(error)));
            if (!here) {
              work(pot);
            }
          });
    }
  }

  /** Returns what to ask for those who wait; null if nobody does, or if what is being given back has to come first. */
  private @Nullable Fetch begin(Pot pot) {
    while (true) {
      pot.waiters.removeIf(Waiter::isDone);
      if (pot.waiters.isEmpty()) {
        pot.working = false;
        count(-1);
        look(pot);
        return null;
      }
      Waiter first = pot.waiters.get(0);
      long now = clock.getAsLong();
      endOld(pot, now);
      long need = first.call.cost() - pot.units;
      if (need < 1) {
        serve(pot, first, now);
        continue;
      }
      long wanted = pot.waiters.stream().mapToLong(waiter -> waiter.call.cost()).sum();
      long most = options.units - pot.units - pot.giving;
      long size = Math.min(Math.max(pot.size, wanted - pot.units), most);
      Call call = Call.one(Call.Verb.LIMIT, pot.asked);
      if (!first.exact && size >= need) {
        return new Fetch(first, call.cost(size).charge(Charge.UP_TO), need, now);
      }
      if (need > most) { // what is being given back counts as held
        pot.stopped = true;
        return null;
      }
      // It costs more than there is. When it can be had only the server knows.
      return new Fetch(first, call.cost(need), need, now);
    }
  }

  private void end(Pot pot, Fetch fetch, Result result, Throwable error) {
    long now = clock.getAsLong();
    boolean upTo = fetch.call.charge() == Charge.UP_TO;
    if (error != null) {
      pot.waiters.forEach(waiter -> answer(waiter, () -> CompletableFuture.failedFuture(error)));
    } else if (result.by() != Result.By.SERVER) {
      passBy(pot, fetch.first, result, now);
    } else if (result.allowed()) {
      add(pot, result, fetch.asked, now);
      serve(pot, fetch.first, now);
    } else if (!upTo || fetch.need == 1) {
      denials.remember(need(pot.words, fetch.need), List.of(pot.key.name()), result, fetch.asked);
      deny(pot, fetch.first, result, fetch.asked);
    }
    fetch.first.exact |= upTo;
    look(pot);
  }

  /** Answers a call that waited. */
  private void answer(Waiter waiter, Supplier<CompletionStage<Result>> with) {
    waiter.answered = true;
    told.add(() -> waiter.to.execute(() -> Stages.ask(with, waiter.future)));
  }

  private void answer(Waiter waiter, Result result) {
    answer(waiter, () -> CompletableFuture.completedFuture(result));
  }

  /**
   * Hands out units in order of arrival, to the one they were fetched for first. A caller that waited for the reply
   * gets them even if they have ended meanwhile: so would a caller that had asked by itself. One that came after their
   * end does not.
   */
  private void serve(Pot pot, Waiter first, long now) {
    for (Waiter waiter : pot.waiters) {
      long units = waiter.call.cost();
      if (!waiter.isDone() && pot.units >= units && (waiter == first || waiter.came - pot.until < 0)) {
        answer(waiter, handOut(pot, units, now, waiter == first ? Result.By.SERVER : Result.By.BATCH));
      }
    }
  }

  /**
   * Answers the first waiter, which was limited, and all calls that ask for as much and came before there were units
   * again.
   */
  private void deny(Pot pot, Waiter first, Result result, long asked) {
    long after = result.state().retryAfterMs();
    State.Draft shared = new State.Draft(result.state());
    shared.by = Result.By.CACHE;
    Result known = shared.done();
    for (Waiter waiter : pot.waiters) {
      if (waiter == first) {
        answer(waiter, result);
      } else if (waiter.call.cost() == first.call.cost() && (after <= 0 || waiter.came - asked < Saturated.times(after, 1_000_000))) {
        answer(waiter, known);
      }
    }
  }

  /**
   * Answers the first waiter with what was decided without the server, and sends everyone else to the decider behind
   * for {@code maxAge}: units that the server does not know of are not kept.
   */
  private void passBy(Pot pot, Waiter first, Result result, long now) {
    pot.direct = now + maxAgeNs;
    pot.size = 1;
    for (Waiter waiter : pot.waiters) {
      boolean tooFew = result.allowed() && result.by() == Result.By.LOCAL && result.granted() < waiter.call.cost();
      if (waiter == first && !tooFew) {
        State.Draft draft = new State.Draft(result.state());
        draft.granted = Math.min(draft.granted, waiter.call.cost());
        answer(waiter, draft.done());
      } else {
        answer(waiter, () -> direct(waiter.call));
      }
    }
  }

  /** Puts a batch into the pot. */
  private void add(Pot pot, Result batch, long asked, long now) {
    endOld(pot, now);
    long counted = asked + batch.state().resetAfterMs() * 1_000_000 - REPORTED_NS;
    long ends = pot.fixed ? earlier(asked + maxAgeNs, counted) : asked + maxAgeNs;
    pot.until = pot.units == 0 ? ends : earlier(ends, pot.until);
    pot.counted = pot.units == 0 ? counted : earlier(counted, pot.counted);
    pot.size = Math.min(2 * pot.size, options.units);
    pot.units += batch.granted();
    pot.used = 0;
    pot.batch = batch;
    pot.came = now;
  }

  private static long earlier(long one, long other) {
    return one - other < 0 ? one : other;
  }

  /** Ends what is too old, looks again when the rest is, and forgets a pot that nobody needs. */
  private void look(Pot pot) {
    long now = clock.getAsLong();
    endOld(pot, now);
    long left = Math.max(pot.until - now, pot.direct - now);
    if (left > 0 && !pot.timed) {
      pot.timed = true;
      told.add(() -> timer.after(left, () -> told.run(() -> ring(pot))));
    } else if (left <= 0 && pot.units == 0 && pot.giving == 0 && !pot.working) {
      pots.remove(pot.words, pot);
    }
  }

  private void ring(Pot pot) {
    pot.timed = false;
    look(pot);
  }

  /** Takes units that are too old out of the pot, and gives them back where the server still counts them. */
  private void endOld(Pot pot, long now) {
    long units = pot.units;
    if (units == 0 || now - pot.until < 0) {
      return;
    }
    pot.units = 0;
    pot.size = Math.max(pot.used, 1);
    long left = Math.min(pot.counted - now, GIVE_BACK_NS);
    if (left <= 0) {
      return;
    }
    pot.giving += units;
    count(1);
    told.add(
        () -> {
          CompletableFuture<Result> refund = new CompletableFuture<>();
          refund.whenComplete((result, error) -> given(pot, units, Errors.unwrapped(error)));
          Stages.ask(() -> Handover.shared(() -> next.decide(Call.one(Call.Verb.REFUND, pot.key).cost(units))), refund);
          if (!refund.isDone()) {
            timer.after(left, () -> refund.completeExceptionally(new TimeoutException("batched: the server did not take units back in time")));
          }
        });
  }

  private void given(Pot pot, long units, Throwable error) {
    told.run(
        () -> {
          pot.giving -= units;
          count(-1);
          if (pot.stopped) {
            pot.stopped = false;
            told.add(() -> work(pot));
          }
          look(pot);
        });
    if (error != null) {
      options.onError.accept(error);
    }
  }

  /** Counts a fetch or a return that begins or has ended. */
  private void count(int more) {
    if (busy == 0) {
      idle = new CompletableFuture<>();
    }
    busy += more;
    if (busy == 0) {
      CompletableFuture<Void> ended = idle;
      told.add(() -> ended.complete(null));
    }
  }
}
