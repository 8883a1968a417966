package io.github.redisthrottle.lettuce;

import io.github.redisthrottle.MistakeException;
import io.github.redisthrottle.OutageException;
import io.github.redisthrottle.OverloadException;
import io.github.redisthrottle.ThrottleException;
import io.github.redisthrottle.connection.ErrorReply;
import io.lettuce.core.RedisCommandExecutionException;
import java.util.concurrent.CompletionException;
import java.util.concurrent.TimeoutException;

/** What Lettuce fails with, told apart. */
final class LettuceErrors {
  private LettuceErrors() {}

  /** Returns the error reply that an error is about; null if it is about something else. */
  static ErrorReply reply(Throwable error) {
    return unwrapped(error) instanceof RedisCommandExecutionException reply ? new ErrorReply(reply.getMessage()) : null;
  }

  /** Returns whether an error hides why there is no connection: Lettuce looked for its handshake when that was over. */
  static boolean isUntold(Throwable error) {
    return root(error).contains("RedisHandshakeHandler not registered");
  }

  static ThrottleException translated(String command, Throwable error) {
    Throwable cause = unwrapped(error);
    if (cause instanceof ThrottleException made) {
      return made;
    }
    if (cause instanceof TimeoutException) {
      return new OutageException(command + ": no reply in time", cause);
    }
    String text = command + ": " + root(cause);
    if (text.contains("queue size exceeded")) {
      return new OverloadException(text, cause);
    }
    String refused = cause instanceof RedisCommandExecutionException ? null : refused(cause); // of the handshake, such as NOAUTH or LOADING
    if (refused == null) {
      return new OutageException(text, cause);
    }
    text = command + ": " + refused;
    return refused.startsWith("LOADING") || refused.contains("max number of clients") ? new OutageException(text, cause, false) : new MistakeException(text, cause);
  }

  /** Returns what a server refused a connection with, of one server or of several that were tried in turn; null without it. */
  private static String refused(Throwable error) {
    for (Throwable at = error; at != null; at = at.getCause()) {
      if (at instanceof RedisCommandExecutionException) {
        return at.getMessage();
      }
      for (Throwable tried : at.getSuppressed()) {
        String refused = refused(tried);
        if (refused != null) {
          return refused;
        }
      }
    }
    return null;
  }

  private static String root(Throwable error) {
    Throwable at = error;
    while (at.getCause() != null) {
      at = at.getCause();
    }
    return at.getMessage() == null ? at.getClass().getSimpleName() : at.getMessage();
  }

  private static Throwable unwrapped(Throwable error) {
    Throwable at = error;
    while (at instanceof CompletionException && at.getCause() != null) {
      at = at.getCause();
    }
    return at;
  }
}
