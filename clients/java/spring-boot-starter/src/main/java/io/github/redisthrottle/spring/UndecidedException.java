package io.github.redisthrottle.spring;

/**
 * A call of a method that could not be decided, where the answer to that is deny. In a controller the response has
 * status 503.
 */
public final class UndecidedException extends RuntimeException {
  private static final long serialVersionUID = 1;

  private final long retryAfterSeconds;

  /** Makes one; {@code cause} is what went wrong. */
  public UndecidedException(Throwable cause, long retryAfterSeconds) {
    super("the rate limit could not be decided", cause);
    this.retryAfterSeconds = retryAfterSeconds;
  }

  /** Returns what Retry-After says. */
  public long retryAfterSeconds() {
    return retryAfterSeconds;
  }
}
