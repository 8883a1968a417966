package io.github.redisthrottle;

import org.jspecify.annotations.Nullable;

/**
 * The thread was interrupted while it waited for a decision. Its interrupted status is set.
 */
public final class CallInterruptedException extends ThrottleException {
  /** Makes one; {@code cause} may be null. */
  public CallInterruptedException(String message, @Nullable Throwable cause) {
    super(message, cause);
  }

  @Override
  public String code() {
    return "INTERRUPTED";
  }
}
