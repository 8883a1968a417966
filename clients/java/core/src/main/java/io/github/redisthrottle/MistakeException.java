package io.github.redisthrottle;

import org.jspecify.annotations.Nullable;

/**
 * The call or the set-up is wrong: a key of another type, a missing module or permission, a closed client, an odd
 * reply.
 *
 * <p>It does not go away by itself.
 */
public final class MistakeException extends ThrottleException {
  /** Makes one; {@code cause} may be null. */
  public MistakeException(String message, @Nullable Throwable cause) {
    super(message, cause);
  }

  @Override
  public String code() {
    return "MISTAKE";
  }
}
