package io.github.redisthrottle.spring;

import io.github.redisthrottle.Decider;
import io.github.redisthrottle.connection.Handover;
import java.util.concurrent.CompletableFuture;
import reactor.core.scheduler.Scheduler;
import reactor.core.scheduler.Schedulers;

/**
 * Decides in threads of its own, with a client that blocks. In those of {@code boundedElastic()} the application is at
 * work, and what follows a decision runs in neither.
 */
final class OffEventLoops implements DeciderCustomizer, AutoCloseable {
  private static final int KEPT_SECONDS = 60;

  private final Scheduler threads =
      Schedulers.newBoundedElastic(
          Schedulers.DEFAULT_BOUNDED_ELASTIC_SIZE, Schedulers.DEFAULT_BOUNDED_ELASTIC_QUEUESIZE, "throttle-jedis", KEPT_SECONDS, true);

  @Override
  public Decider customize(Decider next) {
    return call -> Handover.of(CompletableFuture.supplyAsync(() -> next.decide(call), threads::schedule).thenCompose(stage -> stage));
  }

  @Override
  public void close() {
    threads.dispose();
  }
}
