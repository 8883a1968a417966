package io.github.redisthrottle;

import java.util.concurrent.locks.ReentrantLock;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * Whether a server is left alone. It never waits, and is safe for use by several threads.
 *
 * <p>It opens after so many failures in a row, or four times as many within ten seconds if at least half of all calls
 * failed. After the pause one call tries the server: {@link #enter} lets it through, and what it says to {@link #leave}
 * closes the breaker or opens it again. Its rules are those of spec/clients/breaker.json. Resilience4j's circuit
 * breaker counts otherwise: it has no failures in a row, and no call that says nothing.
 */
final class Breaker {
  /** How a call went that was let through. */
  enum Outcome {
    SUCCESS,
    FAILURE,
    /** It says nothing about the server. */
    NOTHING
  }

  /** What the breaker is. */
  enum State {
    CLOSED,
    OPEN,
    HALF_OPEN
  }

  /** A call that must not be sent. */
  static final long REFUSED = -1;

  private static final long WINDOW_NS = 10_000_000_000L;

  private final ReentrantLock lock = new ReentrantLock();
  private final int failures;
  private final long pauseNs;
  private final LongSupplier clock;
  private State state = State.CLOSED;
  private long generation;
  private long calls;
  private long underWay;
  private long unjudged;
  private long failed;
  private long inARow;
  private long ends;

  Breaker(int failures, long pauseNs, LongSupplier clock) {
    this.failures = failures;
    this.pauseNs = pauseNs;
    this.clock = clock;
    begin(clock.getAsLong());
  }

  /** Returns whether the server is left alone, or just being tried again. */
  boolean isOut() {
    lock.lock();
    try {
      now();
      return state != State.CLOSED;
    } finally {
      lock.unlock();
    }
  }

  /** Returns the time until the server is tried again, in ns: once more where that is being done. */
  long untilRetry() {
    lock.lock();
    try {
      long left = ends - now();
      return state == State.OPEN && left > 0 ? left : pauseNs;
    } finally {
      lock.unlock();
    }
  }

  /** Returns a number for {@link #leave}, or {@link #REFUSED}. */
  long enter() {
    lock.lock();
    try {
      now();
      if (state == State.OPEN || (state == State.HALF_OPEN && calls > unjudged)) {
        return REFUSED;
      }
      calls++;
      underWay++;
      return generation;
    } finally {
      lock.unlock();
    }
  }

  /** Notes how a call went. Returns the state if this has changed it, and null otherwise. */
  @Nullable State leave(long entered, Outcome outcome) {
    lock.lock();
    try {
      long now = now();
      if (entered != generation) {
        return null;
      }
      underWay--;
      if (outcome == Outcome.NOTHING) {
        unjudged++;
        return null;
      }
      if (outcome == Outcome.SUCCESS) {
        inARow = 0;
        return state == State.HALF_OPEN ? turn(State.CLOSED, now) : null;
      }
      if (state == State.HALF_OPEN) {
        return turn(State.OPEN, now);
      }
      failed++;
      inARow++;
      boolean opens = inARow >= failures || (failed >= 4L * failures && 2 * failed >= calls);
      return opens ? turn(State.OPEN, now) : null;
    } finally {
      lock.unlock();
    }
  }

  /** Begins to count anew. What began before counts no more. */
  private void begin(long now) {
    generation++;
    calls = underWay = unjudged = failed = inARow = 0;
    ends = now + (state == State.OPEN ? pauseNs : WINDOW_NS);
  }

  private State turn(State next, long now) {
    state = next;
    begin(now);
    return next;
  }

  private long now() {
    long now = clock.getAsLong();
    if (now - ends > 0 && state == State.CLOSED) { // a row goes on: its calls may take seconds to fail
      calls = underWay;
      failed = 0;
      ends = now + WINDOW_NS;
    } else if (now - ends > 0 && state == State.OPEN) {
      turn(State.HALF_OPEN, now);
    }
    return now;
  }
}
