package io.github.redisthrottle;

import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * Counts denials by key that a layer has answered, and tells the server for its CL.TOP, in the background. Nobody waits
 * for it, and it forgets what it cannot tell.
 */
final class Reports {
  /** How often reports are sent. */
  static final long EVERY_NS = 1_000_000_000;

  /** How many are sent at a time: a round is at most so many calls. */
  static final int PER_ROUND = 100;

  /** How many keys may wait to be reported. */
  static final int MOST = 10_000;

  /** How many characters a key may have. */
  private static final int LONGEST = 1024;

  /** What CL.DENIED takes. */
  private static final long AT_ONCE = 10_000;

  /** How long nothing is counted after the server said that CL.TOP is off, or was out of reach. */
  static final long UNTIL_ON_NS = 60 * EVERY_NS;

  /**
   * That time after it refused the command: its module is older, it has none, or the user has no right. Each try may be
   * noted in its ACL LOG.
   */
  static final long UNTIL_KNOWN_NS = 3600 * EVERY_NS;

  private final Decider next;
  private final Batched.Timer timer;
  private final LongSupplier clock;
  private final ReentrantLock lock = new ReentrantLock();
  private final Map<String, Long> counts = new LinkedHashMap<>(); // those that were denied first are reported first
  private boolean isSilent; // nothing is counted until silentUntil
  private long silentUntil;
  private boolean sends; // a round is due, or under way

  Reports(Decider next) {
    this(next, (ns, act) -> CompletableFuture.delayedExecutor(ns, TimeUnit.NANOSECONDS).execute(act), System::nanoTime);
  }

  Reports(Decider next, Batched.Timer timer, LongSupplier clock) {
    this.next = next;
    this.timer = timer;
    this.clock = clock;
  }

  /** Counts a call on a key that was denied. */
  void count(String key) {
    lock.lock();
    try {
      if (!counts.containsKey(key) && (counts.size() == MOST || key.length() > LONGEST || isSilent())) {
        return;
      }
      counts.merge(key, 1L, Long::sum);
      if (!sends) {
        sends = true;
        due();
      }
    } finally {
      lock.unlock();
    }
  }

  private boolean isSilent() {
    isSilent = isSilent && clock.getAsLong() - silentUntil < 0;
    return isSilent;
  }

  private void due() {
    timer.after(EVERY_NS, () -> send(PER_ROUND));
  }

  /** Sends the rest of a round. One call follows the other. */
  private void send(int left) {
    if (left == 0) {
      due();
      return;
    }
    Call report = take();
    if (report == null) {
      return;
    }
    CompletionStage<Result> told;
    try {
      told = next.decide(report);
    } catch (RuntimeException e) {
      told = CompletableFuture.failedFuture(e);
    }
    told.whenComplete(
        (result, error) -> {
          Throwable cause = Errors.unwrapped(error);
          if (error == null && result.granted() == report.cost()) {
            send(left - 1);
          } else if (error == null || cause instanceof OutageException || cause instanceof OverloadException) {
            forget(UNTIL_ON_NS);
          } else {
            forget(UNTIL_KNOWN_NS);
          }
        });
  }

  /** Returns what to report next; null if there is nothing, and nothing is due. */
  private @Nullable Call take() {
    lock.lock();
    try {
      Iterator<Map.Entry<String, Long>> first = counts.entrySet().iterator();
      if (!first.hasNext()) {
        sends = false;
        return null;
      }
      Map.Entry<String, Long> entry = first.next();
      long n = Math.min(entry.getValue(), AT_ONCE);
      Call report = Call.denied(entry.getKey(), n);
      if (n == entry.getValue()) {
        first.remove();
      } else {
        entry.setValue(entry.getValue() - n);
      }
      return report;
    } finally {
      lock.unlock();
    }
  }

  private void forget(long pauseNs) {
    lock.lock();
    try {
      counts.clear();
      sends = false;
      isSilent = true;
      silentUntil = clock.getAsLong() + pauseNs;
    } finally {
      lock.unlock();
    }
  }
}
