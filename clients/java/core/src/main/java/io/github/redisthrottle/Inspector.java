package io.github.redisthrottle;

import java.util.concurrent.CompletionStage;

/** What can tell what keys hold: a {@link Remote}, and in tests a {@link FakeLimiter}. */
@FunctionalInterface
public interface Inspector {
  /**
   * Tells what a key holds and until when, without its limits (CL.INSPECT). It writes nothing.
   *
   * <p>The stage completes with an {@link OutageException}, an {@link OverloadException} or a {@link MistakeException}
   * without an answer.
   */
  CompletionStage<Inspection> inspect(String key);
}
