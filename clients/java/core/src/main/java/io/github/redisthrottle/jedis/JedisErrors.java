package io.github.redisthrottle.jedis;

import io.github.redisthrottle.MistakeException;
import io.github.redisthrottle.OutageException;
import io.github.redisthrottle.OverloadException;
import io.github.redisthrottle.ThrottleException;
import io.github.redisthrottle.connection.Certificates;
import java.io.IOException;
import java.net.ConnectException;
import java.net.SocketTimeoutException;
import java.net.UnknownHostException;
import javax.net.ssl.SSLException;
import org.jspecify.annotations.Nullable;
import redis.clients.jedis.exceptions.JedisClusterOperationException;
import redis.clients.jedis.exceptions.JedisConnectionException;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.exceptions.JedisException;

/** What Jedis fails with, told apart. */
final class JedisErrors {
  private JedisErrors() {}

  static boolean isOutage(Throwable error) {
    return error instanceof OutageException
        || error instanceof JedisConnectionException
        || error instanceof JedisClusterOperationException
        || (error.getCause() != null && error.getCause() != error && isOutage(error.getCause()));
  }

  /** {@code server} is what errors call it; empty if it is not known. */
  static ThrottleException translated(String command, String server, RuntimeException error) {
    if (error instanceof ThrottleException made) {
      return made;
    }
    String text = command + (server.isEmpty() ? "" : ": " + server) + ": " + reason(error);
    if (error instanceof JedisDataException) { // of the handshake
      boolean later = String.valueOf(error.getMessage()).matches("(?s)LOADING .*|.*max number of clients.*");
      return later ? new OutageException(text, error, false) : new MistakeException(text, error);
    }
    if (Certificates.refused(error) != null) {
      return new MistakeException(text, error);
    }
    if (isOutage(error)) {
      boolean unsent = find(error, ConnectException.class) != null || find(error, UnknownHostException.class) != null;
      return new OutageException(text, error, !unsent);
    }
    if (error instanceof JedisException && text.contains("Could not get a resource")) {
      return new OverloadException(text, error);
    }
    return new MistakeException(text, error);
  }

  static boolean isTimeout(Throwable error) {
    return find(error, SocketTimeoutException.class) != null;
  }

  /** Returns why there is no reply. Jedis says only that it has no connection. */
  private static String reason(RuntimeException error) {
    if (find(error, UnknownHostException.class) != null) {
      return "the name is not known";
    }
    if (isTimeout(error)) {
      return "no reply in time";
    }
    String untrusted = Certificates.refused(error);
    if (untrusted != null) {
      return untrusted;
    }
    IOException cause = find(error, SSLException.class);
    cause = cause == null ? find(error, ConnectException.class) : cause;
    String text = cause == null ? String.valueOf(error.getMessage()) : String.valueOf(cause.getMessage());
    return text.startsWith("Unexpected end of stream") ? "the connection was closed" : text;
  }

  private static <T extends Throwable> @Nullable T find(Throwable error, Class<T> kind) {
    for (Throwable at = error; at != null; at = at.getCause()) {
      if (kind.isInstance(at)) {
        return kind.cast(at);
      }
      for (Throwable suppressed : at.getSuppressed()) {
        T found = find(suppressed, kind);
        if (found != null) {
          return found;
        }
      }
    }
    return null;
  }
}
