package io.github.redisthrottle;

import java.util.concurrent.CompletionStage;

/**
 * What decides calls: a {@link Limiter}, a guard, a cache, a fake in a test, or a class of yours. It is safe for use by
 * several threads.
 *
 * <p>A denied call is no error: {@link Result#limited} says so. Without a decision the stage completes with an
 * {@link OutageException}, an {@link OverloadException} or a {@link MistakeException}. Cancelling the future of a call
 * that waits gives up the wait.
 */
@FunctionalInterface
public interface Decider {
  /** Decides a call. */
  CompletionStage<Result> decide(Call call);

  /**
   * Returns the name of the server that has a key, where there are several; empty where there is one, or while it is
   * not known.
   */
  default String nodeOf(String key) {
    return "";
  }
}
