package io.github.redisthrottle.lettuce;

import io.github.redisthrottle.MistakeException;
import io.github.redisthrottle.OutageException;
import io.github.redisthrottle.OverloadException;
import io.github.redisthrottle.ThrottleException;
import io.github.redisthrottle.connection.Certificates;
import io.github.redisthrottle.connection.ErrorReply;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisURI;
import java.net.UnknownHostException;
import java.util.List;
import java.util.concurrent.CompletionException;
import org.jspecify.annotations.Nullable;

/** What Lettuce fails with, told apart. */
final class LettuceErrors {
  private LettuceErrors() {}

  /** Returns the error reply that an error is about; null if it is about something else. */
  static @Nullable ErrorReply reply(Throwable error) {
    return unwrapped(error) instanceof RedisCommandExecutionException reply ? new ErrorReply(String.valueOf(reply.getMessage())) : null;
  }

  /** Returns whether an error hides why there is no connection: Lettuce looked for its handshake when that was over. */
  static boolean isUntold(Throwable error) {
    return root(error).contains("RedisHandshakeHandler not registered");
  }

  /** Returns the address of a server. */
  static String address(RedisURI uri) {
    return uri.getSocket() == null ? uri.getHost() + ":" + uri.getPort() : uri.getSocket();
  }

  /** Returns what errors call a server, without a user and a password. */
  static String name(RedisURI uri) {
    List<RedisURI> sentinels = uri.getSentinels();
    String name = sentinels.isEmpty() ? address(uri) : uri.getSentinelMasterId() + " of the Sentinel " + address(sentinels.get(0));
    return uri.isSsl() ? name + " by TLS" : name;
  }

  static ThrottleException translated(String command, String server, Throwable error) {
    Throwable cause = unwrapped(error);
    if (cause instanceof OutageException made) {
      return new OutageException(command + ": " + made.getMessage(), made.getCause(), made.sent());
    }
    if (cause instanceof OverloadException made) {
      return new OverloadException(command + ": " + made.getMessage(), made.getCause(), made.sent());
    }
    if (cause instanceof ThrottleException made) {
      return made;
    }
    String text = command + ": " + server + ": " + root(cause);
    if (text.contains("queue size exceeded")) {
      return new OverloadException(text, cause);
    }
    String untrusted = Certificates.refused(cause);
    if (untrusted != null) {
      return new MistakeException(command + ": " + server + ": " + untrusted, cause);
    }
    String refused = cause instanceof RedisCommandExecutionException ? null : refused(cause); // of the handshake, such as NOAUTH or LOADING
    if (refused == null) {
      return new OutageException(text, cause, !text(cause).startsWith("Unable to connect"));
    }
    text = command + ": " + server + ": " + refused;
    return refused.startsWith("LOADING") || refused.contains("max number of clients") ? new OutageException(text, cause, false) : new MistakeException(text, cause);
  }

  /**
   * Returns what a server refused a connection with, of one server or of several that were tried in turn; null without
   * it.
   */
  private static @Nullable String refused(Throwable error) {
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
    boolean isName = at instanceof UnknownHostException; // behind it Netty has the answer of the name server
    while (at.getCause() != null) {
      at = at.getCause();
      isName |= at instanceof UnknownHostException;
    }
    return !isName ? text(at) : at instanceof UnknownHostException ? "the name is not known" : "the name is not known: " + text(at);
  }

  private static String text(Throwable error) {
    return error.getMessage() == null ? error.getClass().getSimpleName() : error.getMessage();
  }

  private static Throwable unwrapped(Throwable error) {
    Throwable at = error;
    while (at instanceof CompletionException && at.getCause() != null) {
      at = at.getCause();
    }
    return at;
  }
}
