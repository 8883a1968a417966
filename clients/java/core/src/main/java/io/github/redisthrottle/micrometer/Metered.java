package io.github.redisthrottle.micrometer;

import io.github.redisthrottle.Call;
import io.github.redisthrottle.CallInterruptedException;
import io.github.redisthrottle.Decider;
import io.github.redisthrottle.Limit;
import io.github.redisthrottle.Observed;
import io.github.redisthrottle.OutageException;
import io.github.redisthrottle.OverloadException;
import io.github.redisthrottle.Result;
import io.github.redisthrottle.http.HeaderFields;
import io.micrometer.core.instrument.MeterRegistry;
import java.util.List;
import java.util.Locale;
import java.util.Objects;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.TimeUnit;

/**
 * Counts and times decisions with Micrometer: {@code ratelimit.decisions} by verb, outcome, policy and by,
 * {@code ratelimit.shadowed} by policy, and {@code ratelimit.decision.duration} by verb and by, as the clients of other
 * languages do. There is no tag for keys: each would be a time series for ever. Closing it closes the next decider, if
 * that can be closed.
 *
 * <pre>{@code
 * Limiter limiter = Limiter.over(Metered.of(Guard.of(Remote.over(connection), Guard.Policy.FAIL), registry));
 * }</pre>
 */
public final class Metered implements Decider, AutoCloseable {
  private final Observed observed;
  private final MeterRegistry registry;

  private Metered(Decider next, MeterRegistry registry) {
    this.registry = Objects.requireNonNull(registry, "registry");
    this.observed = Observed.of(Objects.requireNonNull(next, "next"), this::measure);
  }

  /** Returns one before a decider. */
  public static Metered of(Decider next, MeterRegistry registry) {
    return new Metered(next, registry);
  }

  @Override
  public CompletionStage<Result> decide(Call call) {
    return observed.decide(call);
  }

  @Override
  public String nodeOf(String key) {
    return observed.nodeOf(key);
  }

  @Override
  public void close() {
    observed.close();
  }

  private void measure(Call call, Result result, Throwable error, long tookNs) {
    String verb = call.verb().name().toLowerCase(Locale.ROOT);
    String by = (result == null ? Result.By.SERVER : result.by()).name().toLowerCase(Locale.ROOT);
    boolean byLimit = result != null && !result.banned() && result.by() != Result.By.POLICY && result.by() != Result.By.NONE;
    String policy = byLimit ? name(result.inForce(call.limits()), result.keyIndex(), result.rule()) : "";
    registry.counter("ratelimit.decisions", "verb", verb, "outcome", outcome(result, error), "policy", policy, "by", by).increment();
    registry.timer("ratelimit.decision.duration", "verb", verb, "by", by).record(tookNs, TimeUnit.NANOSECONDS);
    if (result != null && result.shadowed().isPresent()) {
      Result.Place place = result.shadowed().get();
      registry.counter("ratelimit.shadowed", "policy", name(result.inForce(call.limits()), place.keyIndex(), place.rule())).increment();
    }
  }

  private static String outcome(Result result, Throwable error) {
    if (result != null) {
      return result.limited() ? "limited" : "allowed";
    }
    if (error instanceof OutageException) {
      return "outage";
    }
    if (error instanceof OverloadException) {
      return "overload";
    }
    return error instanceof CancellationException || error instanceof CallInterruptedException ? "cancelled" : "error";
  }

  /** Returns the name of a limit, as the RateLimit fields have it; empty of a key without limits. */
  private static String name(List<List<Limit>> limits, int key, int rule) {
    return key < limits.size() && rule < limits.get(key).size() ? HeaderFields.name(limits.get(key), rule) : "";
  }
}
