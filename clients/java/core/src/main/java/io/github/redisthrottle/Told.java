package io.github.redisthrottle;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Supplier;

/**
 * A lock, and what its holders have to tell others: it is told once the lock is free, so that nobody is called under
 * it.
 */
final class Told {
  private final ReentrantLock lock = new ReentrantLock();
  private List<Runnable> acts = new ArrayList<>();

  /** Has something run once the lock, which the caller holds, is free. */
  void add(Runnable act) {
    acts.add(act);
  }

  /** As {@link #locked}, without a value. */
  void run(Runnable act) {
    locked(
        () -> {
          act.run();
          return this;
        });
  }

  /** Runs something with the lock, and then, without it, what was added. */
  <T> T locked(Supplier<T> act) {
    List<Runnable> due = List.of();
    lock.lock();
    try {
      T value = act.get();
      if (lock.getHoldCount() == 1) {
        due = acts;
        acts = new ArrayList<>();
      }
      return value;
    } finally {
      lock.unlock();
      due.forEach(Runnable::run);
    }
  }
}
