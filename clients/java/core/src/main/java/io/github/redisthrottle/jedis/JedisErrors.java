package io.github.redisthrottle.jedis;

import io.github.redisthrottle.MistakeException;
import io.github.redisthrottle.OutageException;
import io.github.redisthrottle.OverloadException;
import io.github.redisthrottle.ThrottleException;
import java.net.ConnectException;
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

  static ThrottleException translated(String command, RuntimeException error) {
    if (error instanceof ThrottleException made) {
      return made;
    }
    String text = command + ": " + error.getMessage();
    if (error instanceof JedisDataException) { // of the handshake
      boolean later = String.valueOf(error.getMessage()).matches("(?s)LOADING .*|.*max number of clients.*");
      return later ? new OutageException(text, error, false) : new MistakeException(text, error);
    }
    if (isOutage(error)) {
      boolean refused = has(error, ConnectException.class);
      return new OutageException(text, error, !refused);
    }
    if (error instanceof JedisException && text.contains("Could not get a resource")) {
      return new OverloadException(text, error);
    }
    return new MistakeException(text, error);
  }

  private static boolean has(Throwable error, Class<? extends Throwable> kind) {
    for (Throwable at = error; at != null; at = at.getCause()) {
      if (kind.isInstance(at)) {
        return true;
      }
      for (Throwable suppressed : at.getSuppressed()) {
        if (kind.isInstance(suppressed)) {
          return true;
        }
      }
    }
    return false;
  }
}
