package io.github.redisthrottle.spring.reactive;

import io.netty.util.concurrent.EventExecutor;
import io.netty.util.internal.ThreadExecutorMap;
import jakarta.servlet.AsyncContext;
import jakarta.servlet.http.HttpServletRequest;
import java.util.concurrent.RejectedExecutionException;
import org.jspecify.annotations.Nullable;
import org.springframework.http.server.reactive.ServerHttpRequestDecorator;
import org.springframework.util.ClassUtils;
import org.springframework.web.server.ServerWebExchange;
import reactor.core.scheduler.Scheduler;
import reactor.core.scheduler.Schedulers;
import reactor.util.context.ContextView;

/**
 * Where what follows a decision runs: in threads as the one that asked for it. So a handler finds what it would find
 * without a limit, and one that is slow keeps nobody waiting whom it would not keep waiting then.
 */
final class Callers {
  private static final boolean NETTY = isPresent("io.netty.util.internal.ThreadExecutorMap");
  private static final boolean SERVLETS = isPresent("org.springframework.web.server.ServerWebExchange") && isPresent("jakarta.servlet.AsyncContext");

  private Callers() {}

  private static boolean isPresent(String name) {
    return ClassUtils.isPresent(name, Callers.class.getClassLoader());
  }

  /** Returns whether this thread is one that a decision which is there already may go on in. */
  static boolean mayGoOn() {
    return Schedulers.isInNonBlockingThread() || !NETTY || !Loops.isHere();
  }

  /**
   * Returns where a caller in this thread goes on: in its event loop if it serves requests, and where it may block in a
   * thread of the servlet container or in {@code boundedElastic()}. All others, such as event loops that read replies
   * of Redis, go on in {@code parallel()}.
   */
  static Scheduler scheduler(ContextView context) {
    if (Schedulers.isInNonBlockingThread()) {
      Scheduler loop = NETTY ? Loops.here() : null;
      return loop == null ? Schedulers.parallel() : loop;
    }
    if (!mayGoOn()) {
      return Schedulers.parallel();
    }
    Scheduler container = SERVLETS ? Containers.of(context) : null;
    return container == null ? Schedulers.boundedElastic() : container;
  }

  // Each of these is loaded only where its library is there.

  private static final class Loops {
    static boolean isHere() {
      return ThreadExecutorMap.currentExecutor() != null;
    }

    static @Nullable Scheduler here() {
      EventExecutor loop = ThreadExecutorMap.currentExecutor();
      return loop == null ? null : Schedulers.fromExecutor(task -> loop.execute(task)); // not as a service
    }
  }

  private static final class Containers {
    static @Nullable Scheduler of(ContextView context) {
      if (!(context.getOrDefault(ServerWebExchange.class, null) instanceof ServerWebExchange exchange)) { // RateLimitWebFilter has put it there
        return null;
      }
      try {
        Object request = ServerHttpRequestDecorator.getNativeRequest(exchange.getRequest());
        if (request instanceof HttpServletRequest servlet) {
          AsyncContext container = servlet.getAsyncContext();
          return Schedulers.fromExecutor(task -> start(container, task));
        }
      } catch (IllegalStateException | IllegalArgumentException e) { // a mock, or the request has ended
      }
      return null;
    }

    private static void start(AsyncContext container, Runnable task) {
      try {
        container.start(task);
      } catch (IllegalStateException | RejectedExecutionException e) { // the request has ended
        var unused = Schedulers.boundedElastic().schedule(task);
      }
    }
  }
}
