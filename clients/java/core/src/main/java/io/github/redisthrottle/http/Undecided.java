package io.github.redisthrottle.http;

import io.github.redisthrottle.OutageException;
import io.github.redisthrottle.OverloadException;
import java.util.Objects;
import java.util.concurrent.CompletionException;

/**
 * What becomes of requests that could not be decided, for each kind of error. By default an outage of Redis is none of
 * the service, a flood of requests does not open the limit, and a mistake shows.
 *
 * @param outage the server is out of reach, or cannot decide now
 * @param overload this process has no connection left
 * @param mistake anything else
 */
public record Undecided(Answer outage, Answer overload, Answer mistake) {
  /** The answers of every language. */
  public static final Undecided DEFAULTS = new Undecided(Answer.ALLOW, Answer.DENY, Answer.RAISE);

  /** Refuses null. */
  public Undecided {
    Objects.requireNonNull(outage, "outage");
    Objects.requireNonNull(overload, "overload");
    Objects.requireNonNull(mistake, "mistake");
  }

  /** Returns what becomes of a request that ended with an error. */
  public Answer to(Throwable error) {
    Throwable cause = error instanceof CompletionException && error.getCause() != null ? error.getCause() : error;
    if (cause instanceof OutageException) {
      return outage;
    }
    return cause instanceof OverloadException ? overload : mistake;
  }
}
