package io.github.redisthrottle;

import org.jspecify.annotations.Nullable;

/**
 * A lease could not be renewed in time, or an admission has lapsed: its slot may be somebody else's.
 */
public final class LeaseLostException extends ThrottleException {
  /** Makes one; {@code cause} may be null. */
  public LeaseLostException(String message, @Nullable Throwable cause) {
    super(message, cause);
  }

  @Override
  public String code() {
    return "LEASE_LOST";
  }
}
