package io.github.redisthrottle.spring.reactive;

import java.util.concurrent.CompletionStage;
import java.util.function.Supplier;
import reactor.core.publisher.Mono;

/** Decisions for publishers. */
public final class Decisions {
  private Decisions() {}

  /**
   * Returns a publisher of what a stage decides, which asks anew with each subscription. What comes behind it runs in a
   * thread as that of the subscriber, and never in one of the limiter: a handler that is slow would keep others from
   * their decisions.
   */
  public static <T> Mono<T> of(Supplier<? extends CompletionStage<T>> decide) {
    return Mono.deferContextual(
        context -> {
          CompletionStage<T> stage = decide.get();
          Mono<T> decided = Mono.fromCompletionStage(stage);
          boolean isThere = stage.toCompletableFuture().isDone() && Callers.mayGoOn();
          return isThere ? decided : decided.publishOn(Callers.scheduler(context));
        });
  }
}
