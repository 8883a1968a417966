package io.github.redisthrottle;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.IntStream;
import java.util.stream.LongStream;

/**
 * Units and slots that are held together, and settled at the end by what was used (CL.MLIMIT and CL.SETTLE).
 *
 * <pre>{@code
 * Keys keys = Keys.of("{7}:tokens", rate(100_000, ofMinutes(1)).take(1200))
 *     .and("{7}:running", Slots.of(4, ofMinutes(5)));
 * try (Admission admission = limiter.admit(keys)) {
 *   Answer answer = askTheModel();
 *   admission.used("{7}:tokens", answer.tokens());
 * }
 * }</pre>
 *
 * <p>Closing it frees the slots, and charges what was used in place of what was taken: more, into debt if need be, or
 * less. Slots last for their ttl and are not renewed, so it is longer than the work; when they have lapsed, closing
 * throws a {@link LeaseLostException}. A settlement that meets an outage or an overload is repeated in the background
 * until the slots lapse.
 */
public final class Admission implements AutoCloseable {
  /**
   * For how long after its slots would have lapsed an admission is given back that nobody knows of: the server may
   * grant it yet.
   */
  private static final long STALE_NS = TimeUnit.SECONDS.toNanos(5);

  private final Limiter limiter;
  private final Call call;
  private final List<Key> charged; // the keys of the call with the limits that were charged, whatever a policy says of them by now
  private final Result result;
  private final long lapses;
  private final Map<String, List<Long>> used = new ConcurrentHashMap<>();
  private final AtomicBoolean held;

  private Admission(Limiter limiter, Call call, Result result) {
    this.limiter = limiter;
    this.call = call;
    this.charged = charged(call, result);
    this.result = result;
    this.held = new AtomicBoolean(result.by() != Result.By.POLICY); // of which no server knows
    this.lapses = System.nanoTime() + lasts(call);
  }

  static CompletionStage<Admission> take(Limiter limiter, Call call) {
    if (!call.leases()) {
      throw new IllegalArgumentException("keys: an admission needs slots, such as Slots.of(4, ofMinutes(1)): limitAll takes units alone");
    }
    limiter.later().forget(call.id());
    // Whether a shadow was charged says only its own result. A policy may have one.
    boolean shadows =
        call.keys().stream().flatMap(key -> key.limits().stream()).anyMatch(limit -> limit.isShadow() || !limit.policyName().isEmpty());
    CompletableFuture<Admission> admission =
        Stages.map(limiter.decide(shadows ? call.each() : call), result -> new Admission(limiter, call, result.orThrow()));
    admission.whenComplete(
        (taken, error) -> {
          if (error != null && !(error instanceof LimitedException) && Errors.mayHaveRun(error)) {
            Map<String, List<Long>> nothing = new HashMap<>();
            call.keys().forEach(key -> nothing.put(key.name(), key.limits().stream().map(limit -> 0L).toList()));
            limiter.later().add(settlement(call, call.keys(), nothing, List.of()), lasts(call) + STALE_NS, 2);
          }
        });
    return admission;
  }

  private static long lasts(Call call) {
    return call.keys().stream().filter(Key::leased).mapToLong(key -> Durations.nanos(Objects.requireNonNull(key.ttl()), "ttl")).max().orElse(0);
  }

  /** Returns the name of the holder, for {@link Limiter#settle} in another process. */
  public String id() {
    return call.id();
  }

  /** Returns the result of the call that took the units and slots. */
  public Result result() {
    return result;
  }

  /**
   * Says how many units of a key's limits were used in the end: one number for all of its limits, or one for each. The
   * last word counts. Limits that nothing is said of keep what was taken of them.
   */
  public void used(String key, long... units) {
    int index = IntStream.range(0, charged.size()).filter(i -> charged.get(i).name().equals(key) && !charged.get(i).leased()).findFirst().orElse(-1);
    if (index < 0) {
      throw new IllegalArgumentException("key: the admission has no limits of this key");
    }
    int limits = charged.get(index).limits().size();
    int own = call.keys().get(index).limits().size();
    // A policy has another number of limits only where those of the code take the same.
    boolean alike = units.length == own && LongStream.of(units).distinct().count() == 1;
    if (units.length != 1 && units.length != limits && !alike) {
      throw new IllegalArgumentException("units: give one number for all limits of the key, or one for each of its " + limits);
    }
    for (long number : units) {
      if (number < 0) {
        throw new IllegalArgumentException("units: " + number + " is negative");
      }
    }
    used.put(key, IntStream.range(0, limits).mapToObj(i -> units[units.length == limits ? i : 0]).toList());
  }

  /** Frees the slots, charges what was used, and throws a {@link LeaseLostException} if the slots had lapsed. */
  @Override
  public void close() {
    if (!settle()) {
      throw new LeaseLostException(
          "the admission has lapsed: its slot may be somebody else's, and its units stay as they were estimated", null);
    }
  }

  /**
   * Frees the slots, and charges what was used. Returns whether the admission was still there; later calls change
   * nothing.
   */
  public boolean settle() {
    return Stages.await(this::settleAsync);
  }

  /** As {@link #settle}. */
  public CompletionStage<Boolean> settleAsync() {
    if (!held.compareAndSet(true, false)) {
      return CompletableFuture.completedFuture(true);
    }
    Call settlement = settlement(call, charged, used, result.each());
    // Copied, since who leaves cancels what it was given, and it is repeated all the same.
    return limiter
        .decide(settlement)
        .handle(
            (settled, error) -> {
              Throwable cause = Errors.unwrapped(error);
              if (cause == null) {
                return settled.allowed();
              }
              if (Errors.mayRepeat(cause)) {
                limiter.later().add(settlement, lapses - System.nanoTime(), 1);
                return true;
              }
              throw cause instanceof RuntimeException mistake ? mistake : new MistakeException(String.valueOf(cause.getMessage()), cause);
            })
        .toCompletableFuture()
        .copy();
  }

  private static List<Key> charged(Call call, Result result) {
    List<List<Limit>> inForce = result.inForce(call.limits());
    List<Key> charged = new ArrayList<>();
    for (int i = 0; i < call.keys().size(); i++) {
      Key key = call.keys().get(i);
      List<Limit> limits = inForce.get(i).stream().map(limit -> limit.inPolicy("")).toList();
      charged.add(key.leased() ? key : new Key(key.name(), limits, 0, null, false));
    }
    return charged;
  }

  /** Returns the call that settles an admission. A shadow that it exceeded was not charged: {@code each} says so. */
  private static Call settlement(Call call, List<Key> charged, Map<String, List<Long>> used, List<Result> each) {
    List<Key> keys = new ArrayList<>();
    for (int k = 0; k < charged.size(); k++) {
      Key key = charged.get(k);
      int index = k;
      List<Long> units = used.get(key.name());
      if (key.leased()) {
        keys.add(new Key(key.name(), List.of(), 0, null, true));
      } else if (units != null) {
        List<Limit> limits = new ArrayList<>();
        for (int i = 0; i < units.size(); i++) {
          Limit limit = key.limits().get(i).withoutSpare();
          int rule = i;
          boolean took = each.stream().noneMatch(one -> one.limited() && one.keyIndex() == index && one.rule() == rule);
          limits.add(took ? limit.take(limit.takenAt(call.cost())).used(units.get(i)) : limit.take(0).used(0));
        }
        if (!limits.isEmpty()) { // nothing was taken where everything passes
          keys.add(Key.of(key.name(), limits));
        }
      }
    }
    return Call.many(Call.Verb.SETTLE, keys).id(call.id());
  }
}
