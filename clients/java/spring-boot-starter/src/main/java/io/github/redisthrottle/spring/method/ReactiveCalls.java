package io.github.redisthrottle.spring.method;

import io.github.redisthrottle.LimitedException;
import io.github.redisthrottle.spring.Answers;
import io.github.redisthrottle.spring.UndecidedException;
import io.github.redisthrottle.spring.reactive.Decisions;
import java.lang.reflect.Method;
import java.util.Objects;
import java.util.Optional;
import org.aopalliance.intercept.MethodInvocation;
import org.jspecify.annotations.Nullable;
import org.reactivestreams.Publisher;
import org.springframework.aop.ProxyMethodInvocation;
import org.springframework.beans.factory.BeanFactory;
import org.springframework.core.ReactiveAdapter;
import org.springframework.core.ReactiveAdapterRegistry;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;
import reactor.util.context.ContextView;

/** Calls of methods that return a publisher. Each subscription is decided for itself, before the method is called. */
final class ReactiveCalls {
  private ReactiveCalls() {}

  static boolean returnsPublisher(Class<?> type) {
    return ReactiveAdapterRegistry.getSharedInstance().getAdapter(type) != null;
  }

  /** As {@link #limit}, of a function of Kotlin that suspends. */
  static Object suspended(RateLimitInterceptor interceptor, BeanFactory beans, Method method, ProxyMethodInvocation invocation) {
    return limit(interceptor, Suspending.isFlow(method) ? Flux.class : Mono.class, beans, method, invocation);
  }

  static Object limit(RateLimitInterceptor interceptor, Class<?> type, BeanFactory beans, Method method, ProxyMethodInvocation invocation) {
    ReactiveAdapter adapter = Objects.requireNonNull(ReactiveAdapterRegistry.getSharedInstance().getAdapter(type));
    MethodInvocation template = invocation.invocableClone();
    Publisher<?> limited =
        adapter.isMultiValue()
            ? Flux.deferContextual(
                context ->
                    decide(interceptor, beans, method, invocation, context)
                        .flatMapMany(denied -> denied.isEmpty() ? proceed(adapter, template) : instead(interceptor, method, template, denied.get())))
            : Mono.deferContextual(
                context ->
                    decide(interceptor, beans, method, invocation, context)
                        .flatMap(
                            denied ->
                                Mono.from(denied.isEmpty() ? proceed(adapter, template) : instead(interceptor, method, template, denied.get()))));
    return adapter.fromPublisher(limited);
  }

  /** Decides a call. The publisher has what denied it, or nothing. */
  private static Mono<Optional<Throwable>> decide(RateLimitInterceptor interceptor, BeanFactory beans, Method method, MethodInvocation invocation,
      ContextView context) {
    SubscribedRequests requests = beans.getBeanProvider(SubscribedRequests.class).getIfAvailable();
    Requests otherwise = beans.getBeanProvider(Requests.class).getIfAvailable();
    Mono<CurrentRequest> current = requests != null ? requests.ofContext(context) : Mono.just(otherwise == null ? CurrentRequest.NONE : otherwise.ofThread());
    return current
        .flatMap(request -> Decisions.of(() -> interceptor.decide(method, invocation, request)).then(Mono.just(Optional.<Throwable>empty())))
        .onErrorResume(error -> Mono.just(Optional.of(Answers.unwrapped(error))));
  }

  private static Publisher<Object> proceed(ReactiveAdapter adapter, MethodInvocation template) {
    try {
      return adapter.toPublisher(((ProxyMethodInvocation) template).invocableClone().proceed());
    } catch (Throwable e) {
      return Mono.error(e);
    }
  }

  private static Publisher<Object> instead(RateLimitInterceptor interceptor, Method method, MethodInvocation template, Throwable error) {
    try {
      Fallback fallback =
          error instanceof LimitedException || error instanceof UndecidedException ? interceptor.fallback(method, template) : null;
      return fallback == null ? Mono.error(error) : published(fallback.call(template, error));
    } catch (Throwable e) {
      return Mono.error(e);
    }
  }

  /**
   * Returns a publisher of what a fallback has returned. That of a function which suspends may return the value itself.
   */
  @SuppressWarnings("unchecked")
  private static Publisher<Object> published(@Nullable Object returned) {
    if (returned instanceof Publisher<?> publisher) {
      return (Publisher<Object>) publisher;
    }
    ReactiveAdapter own = returned == null ? null : ReactiveAdapterRegistry.getSharedInstance().getAdapter(returned.getClass());
    return own == null ? Mono.justOrEmpty(returned) : own.toPublisher(returned);
  }

  /** Refuses to wait in a thread that must not. */
  static void refuseToBlock(Method method) {
    if (Schedulers.isInNonBlockingThread()) {
      throw new IllegalStateException(
          "@RateLimit of " + method.getDeclaringClass().getSimpleName() + "." + method.getName()
              + " would block a thread of Reactor: return a Mono or a Flux, or call it in Schedulers.boundedElastic()");
    }
  }
}
