package io.github.redisthrottle;

import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;

/**
 * Calls that give something back, repeated in the background until the server has answered: releases and settlements.
 * Both may be sent any number of times. At most 10,000 are kept: those that came first are given up for others.
 */
final class Later {
  private static final Logger LOG = System.getLogger("io.github.redisthrottle");
  private static final int MOST = 10_000;
  private static final long SHORTEST_MS = 50;
  private static final long LONGEST_MS = 1000;

  private final Decider decider;
  private final ScheduledExecutorService scheduler;
  private final ReentrantLock lock = new ReentrantLock();
  private final List<Owed> owed = new ArrayList<>();
  private long pauseMs = SHORTEST_MS;
  private boolean running;

  /** A call, until when it is repeated, and how many replies are wanted yet. */
  private static final class Owed {
    final Call call;
    final long until;
    int replies;

    Owed(Call call, long until, int replies) {
      this.call = call;
      this.until = until;
      this.replies = replies;
    }
  }

  Later(Decider decider, ScheduledExecutorService scheduler) {
    this.decider = decider;
    this.scheduler = scheduler;
  }

  /**
   * Repeats a call for so long. It is through after so many replies, or when one says that something was given back.
   */
  void add(Call call, long ns, int replies) {
    if (ns <= 0) {
      return;
    }
    locked(
        () -> {
          if (owed.size() == MOST) {
            owed.remove(0);
          }
          owed.add(new Owed(call, System.nanoTime() + ns, replies));
          if (!running) {
            running = true;
            schedule();
          }
        });
  }

  /** Repeats a call no more: its id takes again what the call would give back. */
  void forget(String id) {
    locked(() -> owed.removeIf(one -> one.call.id().equals(id)));
  }

  void close() {
    locked(owed::clear);
  }

  private void locked(Runnable act) {
    lock.lock();
    try {
      act.run();
    } finally {
      lock.unlock();
    }
  }

  private void schedule() {
    try {
      scheduler.schedule(this::round, pauseMs, TimeUnit.MILLISECONDS);
    } catch (java.util.concurrent.RejectedExecutionException e) { // closed
      owed.clear();
    }
  }

  /** Sends the call that came first. As long as calls get through, the next one follows soon. */
  private void round() {
    Owed first;
    lock.lock();
    try {
      long now = System.nanoTime();
      owed.removeIf(one -> one.replies <= 0 || one.until - now <= 0);
      if (owed.isEmpty()) {
        running = false;
        pauseMs = SHORTEST_MS;
        return;
      }
      first = owed.get(0);
    } finally {
      lock.unlock();
    }
    Stages.ask(() -> decider.decide(first.call), new CompletableFuture<>())
        .whenComplete((result, error) -> locked(() -> ended(first, result, Errors.unwrapped(error))));
  }

  private void ended(Owed one, Result result, Throwable error) {
    if (error == null) {
      one.replies = result.granted() != 0 ? 0 : one.replies - 1;
      pauseMs = 1;
    } else if (Errors.mayRepeat(error)) {
      pauseMs = Math.min(Math.max(pauseMs, SHORTEST_MS / 2) * 2, LONGEST_MS);
      if (owed.remove(one)) { // one failure may be about one server of a cluster
        owed.add(one);
      }
    } else {
      LOG.log(Level.ERROR, "redis-throttle: mistake: a {0} was given up: {1}", one.call.verb().word(), error.getMessage());
      one.replies = 0;
    }
    schedule();
  }
}
