package io.github.redisthrottle;

import org.jspecify.annotations.Nullable;

/**
 * Any error of this package. Its text never holds a key.
 *
 * <p>Whatever has no decision is one of three: an {@link OutageException}, an {@link OverloadException} or a
 * {@link MistakeException}. An argument that cannot be is an {@link IllegalArgumentException} of the method that it was
 * given to.
 */
public abstract sealed class ThrottleException extends RuntimeException
    permits OutageException,
        OverloadException,
        MistakeException,
        LimitedException,
        LeaseLostException,
        CallInterruptedException {
  ThrottleException(String message, @Nullable Throwable cause) {
    super(message, cause);
  }

  /**
   * Returns which error it is; the same in later versions: OUTAGE, OVERLOAD, MISTAKE, LIMITED, LEASE_LOST or
   * INTERRUPTED.
   */
  public abstract String code();
}
