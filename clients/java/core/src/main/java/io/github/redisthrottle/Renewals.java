package io.github.redisthrottle;

import io.github.redisthrottle.connection.Together;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.NavigableSet;
import java.util.TreeSet;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;

/** When leases are renewed: those whose time has come are together, in one round trip. */
final class Renewals {
  private static final int MOST = 1000; // in one round trip
  private static final long SOON_NS = TimeUnit.MILLISECONDS.toNanos(10);

  private final ScheduledExecutorService scheduler;
  private final ReentrantLock lock = new ReentrantLock();
  private final NavigableSet<Renewal> all = new TreeSet<>(Comparator.comparingLong(Renewal::sinceStart).thenComparing(Renewal::number));
  private final long start = System.nanoTime();
  private long made;
  private long planned = Long.MAX_VALUE; // when the next round is

  /** What is to be done at an instant, in ns since the start. */
  record Renewal(long sinceStart, long number, Runnable renew) {}

  Renewals(ScheduledExecutorService scheduler) {
    this.scheduler = scheduler;
  }

  /** Renews something after some ns. */
  Renewal after(long ns, Runnable renew) {
    lock.lock();
    try {
      Renewal renewal = new Renewal(System.nanoTime() - start + ns, made++, renew);
      all.add(renewal);
      if (renewal.sinceStart() < planned) {
        plan(renewal.sinceStart());
      }
      return renewal;
    } finally {
      lock.unlock();
    }
  }

  void cancel(Renewal renewal) {
    lock.lock();
    try {
      all.remove(renewal);
    } finally {
      lock.unlock();
    }
  }

  private void plan(long sinceStart) {
    planned = sinceStart;
    long ns = Math.max(sinceStart - (System.nanoTime() - start), 0);
    try {
      var unused = scheduler.schedule(() -> round(sinceStart), ns, TimeUnit.NANOSECONDS);
    } catch (RejectedExecutionException e) { // closed: the leases lapse
      all.clear();
    }
  }

  private void round(long sinceStart) {
    List<Renewal> due = new ArrayList<>();
    lock.lock();
    try {
      if (sinceStart != planned) { // an earlier round came in between, which has planned the next one
        return;
      }
      planned = Long.MAX_VALUE;
      long soon = System.nanoTime() - start + SOON_NS;
      while (!all.isEmpty() && all.first().sinceStart() <= soon && due.size() < MOST) {
        due.add(all.pollFirst());
      }
      if (!all.isEmpty()) {
        plan(all.first().sinceStart());
      }
    } finally {
      lock.unlock();
    }
    Together.run(() -> due.forEach(renewal -> renewal.renew().run()));
  }
}
