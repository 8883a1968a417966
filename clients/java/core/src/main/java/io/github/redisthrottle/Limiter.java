package io.github.redisthrottle;

import io.github.redisthrottle.connection.Connection;
import java.time.Duration;
import java.util.Objects;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ScheduledExecutorService;
import org.jspecify.annotations.Nullable;

/**
 * The verbs over a client of Redis or Valkey, or over any other {@link Decider}. It is safe for use by several threads.
 *
 * <pre>{@code
 * try (Limiter limiter = Limiter.over(LettuceConnection.of("redis://127.0.0.1:6379"))) {
 *   Result result = limiter.limit("user:42", rate(5, ofSeconds(1)).burst(10), fixed(100_000, 1, ChronoUnit.MONTHS));
 *   if (result.limited()) {
 *     System.out.println("try again in " + result.retryAfter());
 *   }
 * }
 * }</pre>
 *
 * <p>Options are those of a {@link Call}: {@code limiter.ask(Call.limit("user:42", limit).cost(3).each())}. Every
 * method throws an {@link OutageException}, an {@link OverloadException} or a {@link MistakeException} when there is no
 * decision. A thread that is interrupted while it waits gets a {@link CallInterruptedException}, and keeps its
 * interrupted status.
 */
public final class Limiter implements Decider, AutoCloseable {
  private final Decider decider;
  private final @Nullable Inspector inspector; // null over what keeps no keys
  private final Background background;
  private final Later later;
  private final Renewals renewals;

  private Limiter(Decider decider, @Nullable Inspector inspector, Background background) {
    this.decider = Objects.requireNonNull(decider, "decider");
    this.inspector = inspector;
    this.background = background;
    this.later = new Later(decider, background.scheduler());
    this.renewals = new Renewals(background.scheduler());
  }

  /** Returns a limiter on a client, with a {@link Guard}. Closing it closes the connection. */
  public static Limiter over(Connection connection) {
    Remote remote = Remote.over(connection);
    return new Limiter(Guard.of(remote, Guard.Policy.FAIL), remote, Background.own());
  }

  /** Returns a limiter over a decider. Closing it closes the decider, if it can be closed. */
  public static Limiter over(Decider decider) {
    return new Limiter(decider, inspectorOf(decider), Background.own());
  }

  /**
   * As {@link #over(Decider)}, which renews leases in the threads of an executor of yours. By default one daemon thread
   * does.
   */
  public static Limiter over(Decider decider, ScheduledExecutorService yours) {
    return new Limiter(decider, inspectorOf(decider), Background.of(yours));
  }

  private static @Nullable Inspector inspectorOf(Decider decider) {
    return decider instanceof Limiter limiter ? limiter.inspector : decider instanceof Inspector inspector ? inspector : null;
  }

  /** Returns the verbs without blocking. */
  public AsyncLimiter async() {
    return new AsyncLimiter(this);
  }

  @Override
  public CompletionStage<Result> decide(Call call) {
    return decider.decide(call.checked());
  }

  @Override
  public String nodeOf(String key) {
    return decider.nodeOf(key);
  }

  /** Decides any call, and waits for the result. */
  public Result ask(Call call) {
    return Stages.await(() -> decide(call));
  }

  /** Takes a unit of all limits of a key, or none (CL.LIMIT). */
  public Result limit(String key, Limit... limits) {
    return ask(Call.limit(key, limits));
  }

  /** Takes so many units of all limits of a key, or none (CL.LIMIT). 0 looks, and is denied by a ban alone. */
  public Result limit(String key, long cost, Limit... limits) {
    return ask(Call.limit(key, limits).cost(cost));
  }

  /**
   * Takes a unit of the limits of several keys: all of them or none (CL.MLIMIT). In a cluster they need a common hash
   * tag.
   */
  public Result limitAll(Keys keys) {
    return ask(Call.limitAll(keys));
  }

  /**
   * Takes a unit of one key: the first, in this order, that has room (CL.MLIMIT ANY). {@link Result#key} says which.
   */
  public Result limitAny(Keys keys) {
    return ask(Call.limitAny(keys));
  }

  /** Tells what {@link #limit} would answer, and charges nothing (CL.PEEK). */
  public Result peek(String key, Limit... limits) {
    return ask(Call.peek(key, limits));
  }

  /**
   * Tells what a key holds and until when, to somebody who does not know its limits: the first question when a customer
   * calls (CL.INSPECT). It writes nothing, and no guard stands in front of it. {@link #peek}, which takes the limits,
   * tells what is left.
   *
   * @throws MistakeException if the key is of another kind, and of a limiter that is over neither a connection, a
   *     {@link Remote} nor a {@link FakeLimiter}: what stands in front of them keeps no keys
   */
  public Inspection inspect(String key) {
    return Stages.await(() -> inspectAsync(key));
  }

  /**
   * Blocks until there is a unit, and takes it, in order of arrival (CL.WAIT). It is not called wait, which every
   * object has. With a group or a priority it is {@code ask(Call.waitFor(...).group(...)).orThrow()}.
   *
   * @throws LimitedException if it never can succeed
   */
  public Result.Allowed waitFor(String key, Limit... limits) {
    return ask(Call.waitFor(key, limits)).orThrow();
  }

  /**
   * As {@link #waitFor(String, Limit...)}, for so long at most, which is more than none. If there will be no unit in
   * time it fails at once.
   *
   * @throws LimitedException if there is no unit in time
   */
  public Result.Allowed waitFor(String key, Duration maxWait, Limit... limits) {
    return ask(Call.waitFor(key, limits).maxWait(maxWait)).orThrow();
  }

  /** Returns so many units to all limits, never above full (CL.REFUND). Returns how many the tightest of them got. */
  public long refund(String key, long units, Limit... limits) {
    return -ask(Call.refund(key, limits).cost(units)).granted();
  }

  /**
   * Bans a key: every call on it is denied for so long; {@link Duration#ZERO} lifts the ban (CL.BAN). A ban is never
   * shortened. Returns how long the key is banned now.
   */
  public Duration ban(String key, Duration duration) {
    return ask(Call.ban(key, duration)).lasts();
  }

  /**
   * Forgets a key: its limits are full, no ban is in force, and no lease is held (DEL). Returns whether there was
   * anything.
   */
  public boolean reset(String key) {
    return ask(Call.reset(key)).granted() != 0;
  }

  /**
   * Holds one of so many slots until it is closed (CL.LEASE).
   *
   * @throws LimitedException if no slot is free
   */
  public Lease lease(String key, Slots slots) {
    return lease(Call.lease(key, slots));
  }

  /**
   * As {@link #lease(String, Slots)}, and waits for a slot for so long at most.
   *
   * @throws LimitedException if no slot becomes free
   */
  public Lease lease(String key, Slots slots, Duration maxWait) {
    return lease(Call.lease(key, slots).maxWait(maxWait));
  }

  /** As {@link #lease(String, Slots)}, with the options of a {@link Call#lease}. Without an id it gets one. */
  public Lease lease(Call call) {
    return Stages.await(() -> async().lease(call));
  }

  /**
   * Takes units of limits and slots, all of them or nothing (CL.MLIMIT).
   *
   * @throws LimitedException if one of them is not there
   */
  public Admission admit(Keys keys) {
    return admit(Call.limitAll(keys));
  }

  /** As {@link #admit(Keys)}, with the options of a {@link Call#limitAll}. Without an id it gets one. */
  public Admission admit(Call call) {
    return Stages.await(() -> async().admit(call));
  }

  /**
   * Ends an admission that another process has taken: frees its slots, and charges or returns the difference between
   * {@link Limit#used} and {@link Limit#take} (CL.SETTLE). Each is settled once, however often you call this. Returns
   * whether there was one.
   */
  public boolean settle(Keys keys, String id) {
    return ask(Call.settle(keys).id(id)).allowed();
  }

  /** Makes the lease of a holder last for {@code ttl} from now on (CL.RENEW). Returns whether it was found. */
  public boolean renew(String key, String id, Duration ttl) {
    return ask(Call.renew(key, ttl).id(id)).allowed();
  }

  /** Ends the lease of a holder (CL.RELEASE). Returns whether it was found. */
  public boolean release(String key, String id) {
    return ask(Call.release(key).id(id)).granted() != 0;
  }

  /** Closes what this limiter has opened, and the decider. What is repeated in the background is given up. */
  @Override
  public void close() {
    later.close();
    background.close();
    Stages.close(decider);
  }

  CompletionStage<Inspection> inspectAsync(String key) {
    if (inspector == null) {
      String text = "inspect needs a limiter over a connection or a Remote: what stands in front of one keeps no keys";
      return CompletableFuture.failedFuture(new MistakeException(text, null));
    }
    return inspector.inspect(key);
  }

  Later later() {
    return later;
  }

  Renewals renewals() {
    return renewals;
  }

  static Call named(Call call) {
    return call.id().isEmpty() ? call.id(UUID.randomUUID().toString()) : call;
  }
}
