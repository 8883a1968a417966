package io.github.redisthrottle.spring.reactive;

import java.util.concurrent.CompletionStage;
import java.util.function.Supplier;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/** Decisions for publishers. */
public final class Decisions {
  private Decisions() {}

  /**
   * Returns a publisher of what a stage decides, which asks anew with each subscription. What comes behind it runs
   * where Reactor expects work that does not block, and never in a thread that reads replies: a handler that computes
   * would keep other requests from their decisions.
   */
  public static <T> Mono<T> of(Supplier<? extends CompletionStage<T>> decide) {
    return Mono.defer(
        () -> {
          CompletionStage<T> stage = decide.get();
          Mono<T> decided = Mono.fromCompletionStage(stage);
          boolean isThere = stage.toCompletableFuture().isDone() && Schedulers.isInNonBlockingThread();
          return isThere ? decided : decided.publishOn(Schedulers.parallel());
        });
  }
}
