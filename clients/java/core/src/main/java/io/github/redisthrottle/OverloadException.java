package io.github.redisthrottle;

import org.jspecify.annotations.Nullable;

/**
 * This process asks for more than it can send or read, or for more connections than it has. The server may well be up.
 *
 * <p>A service that lets requests through at this error has no limit as soon as there are enough of them.
 */
public final class OverloadException extends ThrottleException {
  private final boolean sent;

  /** Makes one of a call that was not sent; {@code cause} may be null. */
  public OverloadException(String message, @Nullable Throwable cause) {
    this(message, cause, false);
  }

  /**
   * Makes one.
   *
   * @param sent whether the call may have reached the server
   */
  public OverloadException(String message, @Nullable Throwable cause, boolean sent) {
    super(message, cause);
    this.sent = sent;
  }

  /** Returns whether the call may have reached the server, and so may have been charged. */
  public boolean sent() {
    return sent;
  }

  @Override
  public String code() {
    return "OVERLOAD";
  }
}
