package io.github.redisthrottle;

import java.time.Duration;
import java.util.Optional;

/** A call that waits, or a lease, was denied. {@link #result} says by what, and when to try again. */
public final class LimitedException extends ThrottleException {
  private final transient Result.Denied result;

  /** Makes one for the result of a call. */
  public LimitedException(Result.Denied result) {
    super(text(result), null);
    this.result = result;
  }

  /** Returns the result of the call. */
  public Result.Denied result() {
    return result;
  }

  @Override
  public String code() {
    return "LIMITED";
  }

  private static String text(Result.Denied result) {
    Optional<Duration> after = result.retryAfter();
    if (after.isEmpty()) {
      return "limited: the call costs more than the limit of " + result.limit();
    }
    return "limited: " + (result.banned() ? "banned, " : "") + "retry after " + after.get().toMillis() + " ms";
  }
}
