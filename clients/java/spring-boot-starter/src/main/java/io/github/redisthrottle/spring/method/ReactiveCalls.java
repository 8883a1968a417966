package io.github.redisthrottle.spring.method;

import java.lang.reflect.Method;
import org.aopalliance.intercept.MethodInvocation;
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

  static Object limit(RateLimitInterceptor interceptor, Class<?> type, BeanFactory beans, Method method, ProxyMethodInvocation invocation) {
    ReactiveAdapter adapter = ReactiveAdapterRegistry.getSharedInstance().getAdapter(type);
    MethodInvocation template = invocation.invocableClone();
    Publisher<?> limited =
        adapter.isMultiValue()
            ? Flux.deferContextual(context -> decide(interceptor, beans, method, invocation, context).thenMany(Flux.defer(() -> proceed(adapter, template))))
            : Mono.deferContextual(context -> decide(interceptor, beans, method, invocation, context).then(Mono.defer(() -> Mono.from(proceed(adapter, template)))));
    return adapter.fromPublisher(limited);
  }

  private static Mono<Void> decide(RateLimitInterceptor interceptor, BeanFactory beans, Method method, MethodInvocation invocation, ContextView context) {
    SubscribedRequests requests = beans.getBeanProvider(SubscribedRequests.class).getIfAvailable();
    Requests otherwise = beans.getBeanProvider(Requests.class).getIfAvailable();
    Mono<CurrentRequest> current = requests != null ? requests.ofContext(context) : Mono.just(otherwise == null ? CurrentRequest.NONE : otherwise.ofThread());
    return current
        .flatMap(request -> Mono.fromCompletionStage(() -> interceptor.decide(method, invocation, request)));
  }

  private static Publisher<Object> proceed(ReactiveAdapter adapter, MethodInvocation template) {
    try {
      return adapter.toPublisher(((ProxyMethodInvocation) template).invocableClone().proceed());
    } catch (Throwable e) {
      return Mono.error(e);
    }
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
