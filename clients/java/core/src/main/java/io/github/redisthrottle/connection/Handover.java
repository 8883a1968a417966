package io.github.redisthrottle.connection;

import io.github.redisthrottle.MistakeException;
import java.util.Objects;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Executor;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.ForkJoinWorkerThread;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * Hands replies over to callers, away from the thread that has read them: what a caller does next would keep that
 * thread from reading other replies. For a {@link Connection} on an event loop.
 *
 * <p>A caller that blocks takes its reply in its own thread, which costs no switch more than waiting does. For all
 * others a pool of daemon threads, {@code throttle-1} and so on, one for each processor, does it. It has more while
 * they wait for futures, or are at work for so long that no reply was taken for 10 ms.
 */
public final class Handover {
  private static final ThreadLocal<Desk> HERE = new ThreadLocal<>();
  private static final ThreadLocal<Boolean> READS = new ThreadLocal<>();

  private Handover() {}

  /** Begins with the first call that needs it, and ends its threads when nothing has been to do for a while. */
  private static final class Pool {
    private static final int THREADS = Math.max(2, Runtime.getRuntime().availableProcessors());
    private static final int MORE = 256;
    private static final int KEPT_SECONDS = 10;
    private static final Executor LATER = CompletableFuture.delayedExecutor(10, TimeUnit.MILLISECONDS, Runnable::run);
    private static final Queue<Runnable> WAITING = new ConcurrentLinkedQueue<>();
    private static final AtomicBoolean WATCHED = new AtomicBoolean();
    private static final ForkJoinPool POOL =
        new ForkJoinPool(THREADS, Pool::worker, null, true, THREADS, THREADS + MORE, 1, pool -> true, KEPT_SECONDS, TimeUnit.SECONDS);
    private static final ThreadPoolExecutor OTHERS =
        new ThreadPoolExecutor(0, MORE, KEPT_SECONDS, TimeUnit.SECONDS, new SynchronousQueue<>(), Pool::other, new ThreadPoolExecutor.DiscardPolicy());

    static void execute(Runnable reply) {
      WAITING.add(reply);
      POOL.execute(Pool::takeOne);
      watch();
    }

    private static boolean takeOne() {
      Runnable reply = WAITING.poll();
      if (reply != null) {
        reply.run();
      }
      return reply != null;
    }

    private static void takeAll() {
      while (takeOne()) {
        // until none is left
      }
    }

    private static void watch() {
      if (!WATCHED.get() && WATCHED.compareAndSet(false, true)) {
        LATER.execute(() -> look(null));
      }
    }

    /** Has one more thread take replies, if none has taken the first one since the last look. */
    private static void look(@Nullable Runnable before) {
      Runnable first = WAITING.peek();
      if (first == null) {
        WATCHED.set(false);
        if (!WAITING.isEmpty()) { // it has just come, and was not watched
          watch();
        }
        return;
      }
      if (first == before) {
        OTHERS.execute(Pool::takeAll);
      }
      LATER.execute(() -> look(first));
    }

    private static ForkJoinWorkerThread worker(ForkJoinPool pool) {
      ForkJoinWorkerThread thread = ForkJoinPool.defaultForkJoinWorkerThreadFactory.newThread(pool);
      thread.setName("throttle-" + (thread.getPoolIndex() + 1));
      thread.setContextClassLoader(Handover.class.getClassLoader()); // that of the application: others are the system's
      return thread;
    }

    private static Thread other(Runnable work) {
      Thread thread = new Thread(work, "throttle-more");
      thread.setContextClassLoader(Handover.class.getClassLoader());
      thread.setDaemon(true);
      return thread;
    }
  }

  /** Where replies wait for a caller that blocks. When it has left, the pool takes them. */
  private static final class Desk implements Executor, ForkJoinPool.ManagedBlocker {
    private final Thread caller = Thread.currentThread();
    private final Queue<Runnable> replies = new ConcurrentLinkedQueue<>();
    private @Nullable CompletableFuture<?> awaited;
    private volatile boolean closed;

    @Override
    public void execute(Runnable reply) {
      replies.add(reply);
      if (!closed) {
        LockSupport.unpark(caller);
      } else if (replies.remove(reply)) {
        Pool.execute(reply);
      }
    }

    /** Takes replies until a future is done, or the thread is interrupted. */
    void await(CompletableFuture<?> future) {
      awaited = future;
      future.whenComplete((value, error) -> LockSupport.unpark(caller));
      try {
        while (!future.isDone() && !caller.isInterrupted()) {
          Runnable reply = replies.poll();
          if (reply != null) {
            reply.run();
          } else {
            ForkJoinPool.managedBlock(this);
          }
        }
      } catch (InterruptedException e) { // which block never throws
        caller.interrupt();
      }
    }

    @Override
    public boolean block() {
      LockSupport.park(this);
      return true;
    }

    @Override
    public boolean isReleasable() {
      return Objects.requireNonNull(awaited).isDone() || !replies.isEmpty() || caller.isInterrupted();
    }

    void close() {
      closed = true;
      for (Runnable reply = replies.poll(); reply != null; reply = replies.poll()) {
        Pool.execute(reply);
      }
    }
  }

  /**
   * Returns a future that completes as the other one does, in a thread of its caller or of the pool. Completing it
   * otherwise, such as by cancelling it, cancels the other one. Call it in the thread of the caller.
   */
  public static <T> CompletableFuture<T> of(CompletableFuture<T> read) {
    if (read.isDone()) {
      return read;
    }
    Executor to = caller();
    CompletableFuture<T> handed = new CompletableFuture<>();
    handed.whenComplete((value, error) -> read.cancel(false));
    read.whenComplete(
        (value, error) ->
            to.execute(
                () -> {
                  if (error != null) {
                    handed.completeExceptionally(error);
                  } else {
                    handed.complete(value);
                  }
                }));
    return handed;
  }

  /**
   * Returns where replies are handed over to the caller in this thread: to itself if it blocks, and else to the pool.
   */
  public static Executor caller() {
    Desk desk = HERE.get();
    return desk == null ? Pool::execute : desk;
  }

  /** Says that this thread reads replies, so that nobody may wait for one here. */
  public static void readsHere() {
    if (READS.get() == null) {
      READS.set(true);
    }
  }

  /**
   * Asks something, and waits until its stage is done, or this thread is interrupted: whoever calls this looks which of
   * the two it is.
   *
   * @throws MistakeException in a thread that reads replies, before anything is asked: it would wait for itself
   */
  public static <T> CompletableFuture<T> await(Supplier<? extends CompletionStage<T>> call) {
    if (READS.get() != null) {
      throw new MistakeException(
          "a blocking call in "
              + Thread.currentThread().getName()
              + ", a thread of the connection, which would wait for itself: use limiter.async(), or block elsewhere, such as in thenApplyAsync",
          null);
    }
    Desk desk = new Desk();
    try {
      CompletableFuture<T> future = with(desk, call).toCompletableFuture();
      if (!future.isDone()) {
        desk.await(future);
      }
      return future;
    } finally {
      desk.close();
    }
  }

  /** Asks something whose reply is not for the caller alone: the pool takes it, also if the caller blocks. */
  public static <T> T shared(Supplier<T> call) {
    return with(null, call);
  }

  private static <T> T with(@Nullable Desk desk, Supplier<T> call) {
    Desk before = HERE.get();
    HERE.set(desk);
    try {
      return call.get();
    } finally {
      HERE.set(before);
    }
  }
}
