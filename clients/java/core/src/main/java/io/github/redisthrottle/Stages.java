package io.github.redisthrottle;

import io.github.redisthrottle.connection.Handover;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CompletionStage;
import java.util.function.BiConsumer;
import java.util.function.Function;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/** Stages and futures, for deciders and connections. */
public final class Stages {
  private Stages() {}

  /** Returns a stage that turns the value of another one, and that cancels it when it is cancelled itself. */
  static <T extends @Nullable Object, R extends @Nullable Object> CompletableFuture<R> map(CompletionStage<T> from, Function<T, R> turn) {
    return then(
        from,
        (value, to) -> {
          R turned;
          try {
            turned = turn.apply(value);
          } catch (Throwable e) {
            to.completeExceptionally(e);
            return;
          }
          complete(to, turned);
        });
  }

  /** As {@link #map}, to another stage. */
  static <T extends @Nullable Object, R extends @Nullable Object> CompletableFuture<R> chain(CompletionStage<T> from, Function<T, CompletionStage<R>> turn) {
    return then(from, (value, to) -> ask(() -> turn.apply(value), to));
  }

  private static <T extends @Nullable Object, R extends @Nullable Object> CompletableFuture<R> then(
      CompletionStage<T> from, BiConsumer<T, CompletableFuture<R>> act) {
    CompletableFuture<R> to = new CompletableFuture<>();
    cancels(to, from);
    from.whenComplete(
        (value, error) -> {
          if (error != null) {
            to.completeExceptionally(Errors.unwrapped(error));
          } else {
            act.accept(value, to);
          }
        });
    return to;
  }

  /** Asks something, and hands its outcome on to a future. Completing the future otherwise cancels what was asked. */
  static <T extends @Nullable Object> CompletableFuture<T> ask(Supplier<CompletionStage<T>> call, CompletableFuture<T> to) {
    try {
      CompletionStage<T> asked = call.get();
      if (!(asked instanceof CompletableFuture<T> future && future.isDone())) {
        cancels(to, asked);
      }
      copy(asked, to);
    } catch (Throwable e) {
      to.completeExceptionally(e);
    }
    return to;
  }

  /**
   * Hands the outcome of a stage on to a future, an error without the wrapper of a stage. A result that comes when the
   * caller of the future has left is given back.
   */
  public static <T extends @Nullable Object> void copy(CompletionStage<T> from, CompletableFuture<T> to) {
    from.whenComplete(
        (value, error) -> {
          if (error != null) {
            to.completeExceptionally(Errors.unwrapped(error));
          } else {
            complete(to, value);
          }
        });
  }

  /** Completes a future. What its caller has left before is given back. */
  static <T extends @Nullable Object> void complete(CompletableFuture<T> to, T value) {
    if (to.complete(value)) {
      return;
    }
    if (value instanceof Result result) {
      result.lost();
    } else if (value instanceof Lease lease) {
      lease.forget();
    }
  }

  /**
   * Cancels {@code other} as soon as {@code future} is completed by somebody else, such as by its cancellation or its
   * timeout.
   */
  static void cancels(CompletableFuture<?> future, CompletionStage<?> other) {
    future.whenComplete((value, error) -> other.toCompletableFuture().cancel(true));
  }

  /**
   * Asks something, and waits for it. A thread that is interrupted cancels it, and keeps its interrupted status. What
   * is there at that very moment it gets all the same: of a lease, nobody else would know.
   */
  static <T> T await(Supplier<? extends CompletionStage<T>> call) {
    CompletableFuture<T> future = Handover.await(call);
    if (!future.isDone() && (future.cancel(true) || !future.isDone())) {
      throw new CallInterruptedException("interrupted while waiting for a decision", null);
    }
    try {
      return future.join();
    } catch (CancellationException e) {
      throw new CallInterruptedException("the call was cancelled", e);
    } catch (CompletionException e) {
      Throwable cause = Errors.unwrapped(e);
      if (cause instanceof RuntimeException unchecked) {
        throw unchecked;
      }
      if (cause instanceof Error error) {
        throw error;
      }
      throw new MistakeException(String.valueOf(cause.getMessage()), cause);
    }
  }

  /** Closes a decider that can be closed. */
  static void close(Decider decider) {
    if (decider instanceof AutoCloseable closeable) {
      try {
        closeable.close();
      } catch (RuntimeException e) {
        throw e;
      } catch (Exception e) {
        throw new IllegalStateException("the decider cannot be closed: " + e.getMessage(), e);
      }
    }
  }
}
