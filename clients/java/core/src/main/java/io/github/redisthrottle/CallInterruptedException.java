package io.github.redisthrottle;

/**
 * The thread was interrupted while it waited for a decision. Its interrupted status is set.
 */
public final class CallInterruptedException extends ThrottleException {
  /** Makes one; {@code cause} may be null. */
  public CallInterruptedException(String message, Throwable cause) {
    super(message, cause);
  }

  @Override
  public String code() {
    return "INTERRUPTED";
  }
}
