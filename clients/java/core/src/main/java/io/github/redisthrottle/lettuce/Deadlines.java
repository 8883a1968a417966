package io.github.redisthrottle.lettuce;

import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;
import org.jspecify.annotations.Nullable;

/**
 * When the calls to a server are due. All wait equally long at first, so they are due in the order in which they begin,
 * and one task looks at the first of them. A task for each call would cost more than the call.
 */
final class Deadlines {
  /** One daemon thread, which ends when it has had nothing to do for a while. */
  static final ScheduledThreadPoolExecutor TIMER = new ScheduledThreadPoolExecutor(1, Deadlines::thread);

  static {
    TIMER.setRemoveOnCancelPolicy(true);
    TIMER.setKeepAliveTime(10, TimeUnit.SECONDS);
    TIMER.allowCoreThreadTimeOut(true);
  }

  /** A call that is under way, among those that began before and after it. */
  static final class Entry {
    private final Runnable overdue;
    private @Nullable Entry before;
    private @Nullable Entry after;
    private boolean isIn;
    private long due;

    Entry(Runnable overdue) {
      this.overdue = overdue;
    }
  }

  private final ReentrantLock lock = new ReentrantLock();
  private final long timeoutNs;
  private @Nullable Entry first;
  private @Nullable Entry last;
  private boolean isLookedAt;

  Deadlines(long timeoutNs) {
    this.timeoutNs = timeoutNs;
  }

  private static Thread thread(Runnable work) {
    Thread thread = new Thread(work, "throttle-timer");
    thread.setDaemon(true);
    return thread;
  }

  long timeoutNs() {
    return timeoutNs;
  }

  /** Runs what an entry has to run when the timeout is over, unless it is removed before. */
  void add(Entry entry) {
    lock.lock();
    try {
      entry.due = System.nanoTime() + timeoutNs;
      if (!isLookedAt) {
        TIMER.schedule(this::look, timeoutNs, TimeUnit.NANOSECONDS);
        isLookedAt = true;
      }
      entry.before = last;
      if (last == null) {
        first = entry;
      } else {
        last.after = entry;
      }
      last = entry;
      entry.isIn = true;
    } finally {
      lock.unlock();
    }
  }

  /** Forgets an entry. */
  void remove(Entry entry) {
    lock.lock();
    try {
      unlink(entry);
    } finally {
      lock.unlock();
    }
  }

  private void look() {
    lock.lock();
    try {
      long now = System.nanoTime();
      while (first != null && first.due - now <= 0) {
        TIMER.execute(first.overdue); // a task of its own: what it throws is its own affair
        unlink(first);
      }
      isLookedAt = first != null;
      if (first != null) {
        TIMER.schedule(this::look, first.due - now, TimeUnit.NANOSECONDS);
      }
    } finally {
      lock.unlock();
    }
  }

  private void unlink(Entry entry) {
    if (!entry.isIn) {
      return;
    }
    entry.isIn = false;
    if (entry.before == null) {
      first = entry.after;
    } else {
      entry.before.after = entry.after;
    }
    if (entry.after == null) {
      last = entry.before;
    } else {
      entry.after.before = entry.before;
    }
    entry.before = null;
    entry.after = null;
  }
}
