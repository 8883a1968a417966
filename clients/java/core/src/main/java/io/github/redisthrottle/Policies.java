package io.github.redisthrottle;

import io.github.redisthrottle.connection.Connection;
import io.github.redisthrottle.connection.Handover;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Future;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.BiConsumer;
import java.util.function.LongSupplier;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * Takes the numbers of limits that have the name of a policy ({@link Limits#policy(String, Limit...)}) from a hash in
 * Redis, where they can be changed while programs run. The limits in the code are the default.
 *
 * <pre>{@code
 * Connection connection = LettuceConnection.of("redis://127.0.0.1:6379");
 * Guard guard = Guard.of(Remote.over(connection), Guard.Policy.FAIL);
 * Limiter limiter = Limiter.over(Policies.of(Cached.of(guard), connection));
 * limiter.limit("user:42", Limits.policy("api", rate(100, ofMinutes(1))));
 * }</pre>
 *
 * <pre>
 * HSET throttle:policies  api            "RATE 60/m BURST 20"
 * HSET throttle:policies  api/premium:*  "RATE 600/m"
 * HSET throttle:policies  api/user:42    "NONE"</pre>
 *
 * <p>The exact key counts first, then the longest prefix, then the name. It stands outside of {@link Guard},
 * {@link Cached} and {@link Batched}, which see the limits in force, and inside of {@link Observed}.
 * {@link Result#policies} says what counted.
 *
 * <p>The hash is read at the first call with a policy, which waits for it for 200 ms at most, and again when a call
 * comes and the last reading is older than {@link Options#refresh}, in the background: no call waits for that. A
 * reading that fails, and a value that cannot be read, change nothing. All of this is logged once.
 */
public final class Policies implements Decider, AutoCloseable {
  private static final Logger LOG = System.getLogger("io.github.redisthrottle");
  private static final long FIRST_MS = 200;
  private static final Duration PATIENCE = Duration.ofSeconds(10);
  private static final double JITTER = 0.1;
  private static final Pattern CONTROL = Pattern.compile("[\\p{Cntrl}\\u0080-\\u009f\\u2028\\u2029]");

  private final Decider next;
  private final Options options;
  private final PolicyReader reader;
  private final PolicyTable table;
  private final LongSupplier clock;
  private final Background background = Background.own();
  private final AtomicBoolean reading = new AtomicBoolean();
  private final AtomicBoolean began = new AtomicBoolean();
  private final CompletableFuture<Boolean> first = new CompletableFuture<>();
  private final Duration patience; // with a reading
  private volatile CompletableFuture<?> latest = CompletableFuture.completedFuture(null); // the reading under way, or the last one
  private volatile long due; // when the next reading is, by the clock

  /** Where policies are read, in place of the hash in Redis: a file, a test. */
  @FunctionalInterface
  public interface Source {
    /**
     * Returns fields and values as the hash has them. It is called in a thread of its own, and may block: after 10 s it
     * is interrupted.
     */
    Map<String, String> read() throws Exception;
  }

  /**
   * How policies are read. Each method of {@link #DEFAULT} returns a changed copy.
   *
   * @param hash the key of the hash, by default throttle:policies
   * @param refresh how old the last reading is at least when a call begins the next one, by default 1 s, give or take a
   *     tenth
   * @param log is told what changes, as INFO, and what goes wrong, as WARNING. By default it is the logger
   *     io.github.redisthrottle
   */
  public record Options(String hash, Duration refresh, BiConsumer<Level, String> log) {
    /** A good default. */
    public static final Options DEFAULT =
        new Options("throttle:policies", Duration.ofSeconds(1), (level, line) -> LOG.log(level, "redis-throttle: " + line));

    /** Checks all of them. */
    public Options {
      Key.text(hash, "hash");
      if (Durations.nanos(refresh, "refresh") <= 0) {
        throw new IllegalArgumentException("refresh: " + refresh + " is not positive");
      }
      Objects.requireNonNull(log, "log");
    }

    /** Returns them for a hash of another name. */
    public Options hash(String key) {
      return new Options(key, refresh, log);
    }

    /** Returns them with another time between two readings. */
    public Options refresh(Duration time) {
      return new Options(hash, time, log);
    }

    /** Returns them with another listener. It must not block. */
    public Options log(BiConsumer<Level, String> listener) {
      return new Options(hash, refresh, listener);
    }
  }

  private Policies(Decider next, PolicyReader reader, Options options, LongSupplier clock, Duration patience) {
    this.next = Objects.requireNonNull(next, "next");
    this.options = options.log((level, line) -> options.log().accept(level, oneLine(line)));
    this.reader = reader;
    this.clock = clock;
    this.patience = patience;
    this.table = new PolicyTable(options.hash(), this.options.log());
  }

  /**
   * Returns what may be in a log: fields and values may hold whatever their writer likes, such as a line of somebody
   * else.
   */
  private static String oneLine(String line) {
    return CONTROL.matcher(line).replaceAll(found -> String.format("\\\\u%04x", (int) found.group().charAt(0)));
  }

  /**
   * Returns one before a decider, which reads over the connection that the limiter has. Closing it closes the decider.
   */
  public static Policies of(Decider next, Connection connection) {
    return of(next, connection, Options.DEFAULT);
  }

  /** As {@link #of(Decider, Connection)}. */
  public static Policies of(Decider next, Connection connection, Options options) {
    return of(next, connection, options, System::nanoTime);
  }

  static Policies of(Decider next, Connection connection, Options options, LongSupplier clock) {
    return new Policies(next, PolicyReader.of(connection, options.hash(), clock), options, clock, PATIENCE);
  }

  /** Returns one before a decider, whose policies come from somewhere else. */
  public static Policies of(Decider next, Source source) {
    return of(next, source, Options.DEFAULT);
  }

  /** As {@link #of(Decider, Source)}. */
  public static Policies of(Decider next, Source source, Options options) {
    return of(next, source, options, System::nanoTime, PATIENCE);
  }

  static Policies of(Decider next, Source source, Options options, LongSupplier clock, Duration patience) {
    return new Policies(next, PolicyReader.of(source, clock), options, clock, patience);
  }

  /**
   * Returns the policies in force: values by their fields, as they were read last, in order. Empty before the first
   * call.
   */
  public Map<String, String> inForce() {
    return table.inForce();
  }

  /**
   * As {@link #inForce}, after another reading if the last one is older than {@link Options#refresh}: where no call has
   * come meanwhile.
   */
  public CompletionStage<Map<String, String>> inForceNow() {
    if (began.get()) {
      refresh();
    } else {
      begin();
    }
    return latest.handle((read, failed) -> inForce());
  }

  /** Returns whether a reading is under way. */
  boolean isReading() {
    return reading.get();
  }

  @Override
  public CompletionStage<Result> decide(Call call) {
    if (!call.hasPolicy()) {
      return next.decide(call);
    }
    if (first.isDone()) {
      refresh();
      return decideNow(call);
    }
    begin();
    CompletableFuture<Boolean> read = first.copy();
    if (call.maxWait() != null && call.maxWait().toMillis() < FIRST_MS) {
      read.completeOnTimeout(false, call.maxWait().toMillis(), TimeUnit.MILLISECONDS);
    }
    return Stages.chain(Handover.of(read), done -> decideNow(call));
  }

  private CompletionStage<Result> decideNow(Call call) {
    return PolicyCall.decide(call, table.lookup(), next, options.log());
  }

  /** Begins the first reading, unless it has begun. */
  void begin() {
    if (began.compareAndSet(false, true)) {
      reading.set(true);
      read();
      first.completeOnTimeout(false, FIRST_MS, TimeUnit.MILLISECONDS);
    }
  }

  private void refresh() {
    if (clock.getAsLong() - due >= 0 && reading.compareAndSet(false, true)) {
      read();
    }
  }

  /** Reads in a thread of its own: some connections block, and some throw at once. */
  private void read() {
    CompletableFuture<@Nullable Map<String, String>> read = new CompletableFuture<>();
    try {
      Future<?> task = background.scheduler().submit(() -> Stages.copy(Stages.chain(CompletableFuture.completedFuture(null), begun -> reader.read()), read));
      read.whenComplete((hash, error) -> task.cancel(true)); // one that takes too long
    } catch (RejectedExecutionException e) { // closed
      first.complete(false);
      return;
    }
    latest = read.orTimeout(patience.toNanos(), TimeUnit.NANOSECONDS).whenComplete(this::ended);
  }

  private void ended(@Nullable Map<String, String> hash, @Nullable Throwable failed) {
    Throwable error = failed == null ? null : Errors.unwrapped(failed);
    try {
      if (error instanceof TimeoutException) {
        table.failed(new TimeoutException("there is no answer within " + patience.toMillis() + " ms"));
      } else if (error != null) {
        table.failed(error);
      } else if (hash != null) {
        table.read(hash);
        reader.taken(hash);
      }
    } catch (RuntimeException e) { // of a source's map, such as one with null in it
      table.failed(e);
    } finally {
      double jittered = 1 - JITTER + 2 * JITTER * ThreadLocalRandom.current().nextDouble();
      due = clock.getAsLong() + (long) (options.refresh().toNanos() * jittered);
      reading.set(false);
      first.complete(true);
    }
  }

  @Override
  public String nodeOf(String key) {
    return next.nodeOf(key);
  }

  @Override
  public void close() {
    background.close();
    Stages.close(next);
  }
}
