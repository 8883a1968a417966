package io.github.redisthrottle.spring;

import io.github.redisthrottle.CallInterruptedException;
import io.github.redisthrottle.OutageException;
import io.github.redisthrottle.OverloadException;
import io.github.redisthrottle.http.Answer;
import io.github.redisthrottle.http.Undecided;
import java.util.concurrent.CompletionException;
import java.util.concurrent.atomic.AtomicLongArray;
import org.apache.commons.logging.Log;
import org.apache.commons.logging.LogFactory;

/**
 * What becomes of calls without a decision.
 *
 * @param undecided the answers, by what is wrong
 * @param retryAfterSeconds Retry-After of status 503
 */
public record Answers(Undecided undecided, long retryAfterSeconds) {
  private static final Log LOG = LogFactory.getLog("io.github.redisthrottle");
  private static final long PAUSE_NS = 10_000_000_000L;
  private static final long LONG_AGO = System.nanoTime() - PAUSE_NS - 1;
  private static final AtomicLongArray LOGGED = new AtomicLongArray(new long[] {LONG_AGO, LONG_AGO, LONG_AGO});

  /** Returns what went wrong, without the wrapper of a stage. */
  public static Throwable unwrapped(Throwable error) {
    return error instanceof CompletionException && error.getCause() != null ? error.getCause() : error;
  }

  /** Returns the answer to an error, which is logged at most once in ten seconds for each kind. */
  public Answer to(Throwable error) {
    if (error instanceof CallInterruptedException) { // the caller leaves
      return Answer.RAISE;
    }
    Answer answer = undecided.to(error);
    int kind = error instanceof OutageException ? 0 : error instanceof OverloadException ? 1 : 2;
    long now = System.nanoTime();
    long last = LOGGED.get(kind);
    if (now - last > PAUSE_NS && LOGGED.compareAndSet(kind, last, now)) {
      String name = kind == 0 ? "outage" : kind == 1 ? "overload" : "mistake";
      LOG.error("redis-throttle: " + name + ": a rate limit could not be decided, and the answer is " + answer + ": " + error.getMessage());
    }
    return answer;
  }

  /** Throws, unless a call that ended with this error is let through. */
  public void letThrough(Throwable failed) {
    Throwable error = unwrapped(failed);
    Answer answer = to(error);
    if (answer == Answer.RAISE && error instanceof RuntimeException unchecked) {
      throw unchecked;
    }
    if (answer != Answer.ALLOW) {
      throw new UndecidedException(error, retryAfterSeconds);
    }
  }
}
