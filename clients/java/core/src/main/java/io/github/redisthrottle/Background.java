package io.github.redisthrottle;

import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/**
 * Where leases are renewed, and where calls are repeated that give something back: a daemon thread, or an executor that
 * was given.
 */
record Background(ScheduledExecutorService scheduler, boolean isOwn) implements AutoCloseable {
  /** Returns one whose thread begins with the first task, and ends when there has been none for a while. */
  static Background own() {
    ScheduledThreadPoolExecutor own =
        new ScheduledThreadPoolExecutor(
            1,
            work -> {
              Thread thread = new Thread(work, "throttle-background");
              thread.setDaemon(true);
              return thread;
            });
    own.setRemoveOnCancelPolicy(true);
    own.setKeepAliveTime(10, TimeUnit.SECONDS);
    own.allowCoreThreadTimeOut(true);
    return new Background(own, true);
  }

  static Background of(ScheduledExecutorService yours) {
    return new Background(yours, false);
  }

  @Override
  public void close() {
    if (isOwn) {
      scheduler.shutdownNow();
    }
  }
}
