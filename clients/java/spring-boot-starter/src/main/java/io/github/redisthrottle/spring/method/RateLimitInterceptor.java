package io.github.redisthrottle.spring.method;

import io.github.redisthrottle.LimitedException;
import io.github.redisthrottle.Limiter;
import io.github.redisthrottle.Result;
import io.github.redisthrottle.spring.Answers;
import io.github.redisthrottle.spring.NamedLimits;
import io.github.redisthrottle.spring.RateLimit;
import io.github.redisthrottle.spring.UndecidedException;
import java.lang.reflect.Method;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ConcurrentHashMap;
import org.aopalliance.intercept.MethodInterceptor;
import org.aopalliance.intercept.MethodInvocation;
import org.jspecify.annotations.Nullable;
import org.springframework.aop.ProxyMethodInvocation;
import org.springframework.beans.factory.BeanFactory;
import org.springframework.context.expression.BeanFactoryResolver;
import org.springframework.context.expression.MethodBasedEvaluationContext;
import org.springframework.core.DefaultParameterNameDiscoverer;
import org.springframework.core.annotation.AnnotatedElementUtils;
import org.springframework.util.ClassUtils;

/** Decides calls of methods with {@link RateLimit} before they reach the method. */
public final class RateLimitInterceptor implements MethodInterceptor {
  private static final boolean REACTOR = ClassUtils.isPresent("reactor.core.publisher.Mono", RateLimitInterceptor.class.getClassLoader());

  /** In place of a method whose caller has left. */
  private static final CompletionStage<Object> NOTHING = CompletableFuture.completedFuture("");

  private final BeanFactory beans;
  private final DefaultParameterNameDiscoverer discoverer = new DefaultParameterNameDiscoverer();
  private final Map<Method, LimitedMethod> methods = new ConcurrentHashMap<>();

  /** Makes one that asks for the beans that it needs when it needs them. */
  public RateLimitInterceptor(BeanFactory beans) {
    this.beans = beans;
  }

  /** Returns the annotations of a method, also those of the methods that it overrides. */
  static Set<RateLimit> annotations(Method method) {
    return AnnotatedElementUtils.findMergedRepeatableAnnotations(method, RateLimit.class);
  }

  /** Reads the annotations of a method of a class, and refuses what is wrong. */
  LimitedMethod limited(Method method, Class<?> type) {
    return methods.computeIfAbsent(method, one -> new LimitedMethod(one, type, annotations(one), beans.getBean(NamedLimits.class), discoverer));
  }

  /** Returns what is called in place of a method that was denied; null without it. */
  @Nullable Fallback fallback(Method method, MethodInvocation invocation) {
    return limited(method, type(method, invocation)).fallback();
  }

  private static Class<?> type(Method method, MethodInvocation invocation) {
    Object target = invocation.getThis();
    return target == null || Proxies.isOfInterfaces(target.getClass()) ? method.getDeclaringClass() : target.getClass();
  }

  private CurrentRequest request() {
    Requests requests = beans.getBeanProvider(Requests.class).getIfAvailable();
    return requests == null ? CurrentRequest.NONE : requests.ofThread();
  }

  @Override
  public @Nullable Object invoke(MethodInvocation invocation) throws Throwable {
    Object target = invocation.getThis();
    Method method = Proxies.method(invocation.getMethod(), target == null ? null : target.getClass());
    Class<?> type = method.getReturnType();
    if (type == CompletionStage.class || type == CompletableFuture.class) {
      return later(invocation, method);
    }
    if (Suspending.is(method)) { // Reactor is there: it was checked at start
      return ReactiveCalls.suspended(this, beans, method, (ProxyMethodInvocation) invocation);
    }
    if (REACTOR) {
      if (ReactiveCalls.returnsPublisher(type)) {
        return ReactiveCalls.limit(this, type, beans, method, (ProxyMethodInvocation) invocation);
      }
      ReactiveCalls.refuseToBlock(method);
    }
    try {
      block(method, invocation);
    } catch (LimitedException | UndecidedException e) {
      Fallback fallback = fallback(method, invocation);
      if (fallback == null) {
        throw e;
      }
      return fallback.call(invocation, e);
    }
    return invocation.proceed();
  }

  private void block(Method method, MethodInvocation invocation) {
    CurrentRequest request = request();
    LimitedMethod.Asked asked = null;
    Result result = null;
    try {
      asked = ask(method, invocation, request);
      result = asked == null ? null : beans.getBean(Limiter.class).ask(asked.call());
    } catch (RuntimeException e) {
      letThrough(e);
    }
    if (asked != null && result != null) {
      looked(request, asked, result);
    }
  }

  private CompletableFuture<Object> later(MethodInvocation invocation, Method method) {
    MethodInvocation copy = ((ProxyMethodInvocation) invocation).invocableClone();
    CallersContext caller = CallersContext.capture();
    CompletableFuture<Void> deciding = decide(method, invocation, request()).toCompletableFuture();
    CompletableFuture<Object> returned = new CompletableFuture<>();
    returned.whenComplete((value, error) -> deciding.cancel(true)); // changes nothing unless the caller has left
    var unused =
        deciding
            .handle((decided, failed) -> returned.isDone() ? NOTHING
                : caller.call(() -> failed == null ? proceed(copy) : instead(method, copy, Answers.unwrapped(failed))))
            .thenCompose(
                stage -> {
                  cancels(returned, stage);
                  return stage;
                })
            .whenComplete(
                (value, error) -> {
                  if (error != null) {
                    returned.completeExceptionally(error);
                  } else {
                    returned.complete(value);
                  }
                });
    return returned;
  }

  /** Has a caller that cancels what it was given cancel a stage, as it would without a limit. */
  private static void cancels(CompletableFuture<?> returned, CompletionStage<?> stage) {
    returned.whenComplete(
        (value, error) -> {
          if (returned.isCancelled()) {
            stage.toCompletableFuture().cancel(true);
          }
        });
  }

  @SuppressWarnings("unchecked")
  private CompletionStage<Object> instead(Method method, MethodInvocation invocation, Throwable error) {
    try {
      Fallback fallback = error instanceof LimitedException || error instanceof UndecidedException ? fallback(method, invocation) : null;
      return fallback == null ? CompletableFuture.failedFuture(error) : (CompletionStage<Object>) Objects.requireNonNull(fallback.call(invocation, error));
    } catch (Throwable e) {
      return CompletableFuture.failedFuture(e);
    }
  }

  @SuppressWarnings("unchecked")
  private static CompletionStage<Object> proceed(MethodInvocation invocation) {
    try {
      return (CompletionStage<Object>) Objects.requireNonNull(invocation.proceed());
    } catch (Throwable e) {
      return CompletableFuture.failedFuture(e);
    }
  }

  /** Decides a call. The stage fails if it is not to reach the method. */
  CompletionStage<Void> decide(Method method, MethodInvocation invocation, CurrentRequest request) {
    CompletableFuture<Void> decided = new CompletableFuture<>();
    try {
      LimitedMethod.Asked asked = ask(method, invocation, request);
      if (asked == null) {
        decided.complete(null);
        return decided;
      }
      CompletionStage<Result> deciding = beans.getBean(Limiter.class).decide(asked.call());
      deciding.whenComplete((result, error) -> complete(decided, () -> end(request, asked, result, error)));
      decided.whenComplete(
          (value, error) -> {
            if (decided.isCancelled()) {
              deciding.toCompletableFuture().cancel(true);
            }
          });
    } catch (RuntimeException e) { // of an expression, or of an argument
      complete(decided, () -> letThrough(e));
    }
    return decided;
  }

  private static void complete(CompletableFuture<Void> decided, Runnable outcome) {
    try {
      outcome.run();
      decided.complete(null);
    } catch (RuntimeException e) {
      decided.completeExceptionally(e);
    }
  }

  private void end(CurrentRequest request, LimitedMethod.Asked asked, @Nullable Result result, @Nullable Throwable error) {
    if (error == null && result != null) {
      looked(request, asked, result);
    } else {
      letThrough(Objects.requireNonNull(error));
    }
  }

  private static void looked(CurrentRequest request, LimitedMethod.Asked asked, Result result) {
    request.decided(new Decided(asked.limits(), result));
    var unused = result.orThrow();
  }

  /** Throws, unless a call without a decision is let through. */
  private void letThrough(Throwable error) {
    beans.getBean(Answers.class).letThrough(error);
  }

  private LimitedMethod.@Nullable Asked ask(Method method, MethodInvocation invocation, CurrentRequest request) {
    MethodBasedEvaluationContext context = new MethodBasedEvaluationContext(request.facts(), method, invocation.getArguments(), discoverer);
    context.setBeanResolver(new BeanFactoryResolver(beans));
    return limited(method, type(method, invocation)).ask(context);
  }
}
