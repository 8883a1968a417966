package io.github.redisthrottle;

/**
 * This process asks for more connections than it has. The server may well be up.
 *
 * <p>A service that lets requests through at this error has no limit as soon as there are enough of them.
 */
public final class OverloadException extends ThrottleException {
  /** Makes one; {@code cause} may be null. */
  public OverloadException(String message, Throwable cause) {
    super(message, cause);
  }

  @Override
  public String code() {
    return "OVERLOAD";
  }
}
