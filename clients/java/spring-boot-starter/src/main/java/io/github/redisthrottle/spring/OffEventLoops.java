package io.github.redisthrottle.spring;

import io.github.redisthrottle.Call;
import io.github.redisthrottle.Decider;
import io.github.redisthrottle.OverloadException;
import io.github.redisthrottle.Result;
import io.github.redisthrottle.Stages;
import io.github.redisthrottle.connection.Handover;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.RejectedExecutionException;
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
    return call -> {
      CompletableFuture<Result> decided = new CompletableFuture<>();
      try {
        var unused = threads.schedule(() -> decide(next, call, decided));
      } catch (RejectedExecutionException e) {
        decided.completeExceptionally(new OverloadException(call.verb() + ": as many calls wait for a thread as may", e));
      }
      return Handover.of(decided);
    };
  }

  /** Decides a call, unless its caller has left. One that leaves later cancels it, and so leaves the line. */
  private static void decide(Decider next, Call call, CompletableFuture<Result> decided) {
    if (decided.isDone()) {
      return;
    }
    try {
      CompletionStage<Result> deciding = next.decide(call);
      decided.whenComplete((result, error) -> deciding.toCompletableFuture().cancel(true));
      Stages.copy(deciding, decided);
    } catch (RuntimeException e) {
      decided.completeExceptionally(e);
    }
  }

  @Override
  public void close() {
    threads.dispose();
  }
}
