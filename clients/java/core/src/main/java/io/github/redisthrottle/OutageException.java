package io.github.redisthrottle;

import org.jspecify.annotations.Nullable;

/**
 * The server is out of reach, or in a state in which it does not decide (LOADING, READONLY, CLUSTERDOWN and the like).
 *
 * <p>It goes away by itself. Decide whether your service lets requests through meanwhile.
 */
public final class OutageException extends ThrottleException {
  private final boolean sent;

  /** Makes one of a call that may have reached the server; {@code cause} may be null. */
  public OutageException(String message, @Nullable Throwable cause) {
    this(message, cause, true);
  }

  /**
   * Makes one.
   *
   * @param sent whether the call may have reached the server
   */
  public OutageException(String message, @Nullable Throwable cause, boolean sent) {
    super(message, cause);
    this.sent = sent;
  }

  /** Returns whether the call may have reached the server, and so may have been charged. */
  public boolean sent() {
    return sent;
  }

  @Override
  public String code() {
    return "OUTAGE";
  }
}
