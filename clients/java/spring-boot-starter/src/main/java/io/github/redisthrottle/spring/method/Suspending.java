package io.github.redisthrottle.spring.method;

import java.lang.reflect.Method;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;
import org.springframework.core.CoroutinesUtils;
import org.springframework.core.KotlinDetector;
import org.springframework.core.MethodParameter;
import org.springframework.util.ClassUtils;

/**
 * Functions of Kotlin that suspend. To Java they have a continuation as the last argument. Spring's proxies call them
 * by a publisher, and turn the one that an interceptor returns back.
 */
final class Suspending {
  private static final String BRIDGE = "kotlinx.coroutines.reactor.MonoKt";
  private static final String FLOW = "kotlinx.coroutines.flow.Flow";

  private Suspending() {}

  static boolean is(Method method) {
    return KotlinDetector.isSuspendingFunction(method);
  }

  /**
   * Refuses a function that suspends where Spring cannot call it by a publisher: its caller would get that publisher.
   */
  static void check(Method method, ClassLoader loader) {
    if (is(method) && !ClassUtils.isPresent(BRIDGE, loader)) {
      throw new IllegalArgumentException(
          "@RateLimit of " + method.getDeclaringClass().getSimpleName() + "." + method.getName()
              + ": a function that suspends needs org.jetbrains.kotlinx:kotlinx-coroutines-reactor");
    }
  }

  /** Returns whether it returns several values. */
  static boolean isFlow(Method method) {
    return returned(method).getName().equals(FLOW);
  }

  /** Returns the type that a method returns, in Kotlin if it suspends. */
  static Class<?> returned(Method method) {
    return is(method) ? new MethodParameter(method, -1).getParameterType() : method.getReturnType();
  }

  /** Returns the types of what a caller gives, without the continuation. */
  static Class<?>[] parameters(Method method) {
    Class<?>[] types = method.getParameterTypes();
    return is(method) ? Arrays.copyOf(types, types.length - 1) : types;
  }

  /** Calls a function that suspends. Returns a publisher. */
  static Object call(Method method, @Nullable Object target, Object[] given, Object continuation) {
    Object[] all = Arrays.copyOf(given, given.length + 1);
    all[given.length] = continuation;
    return CoroutinesUtils.invokeSuspendingFunction(method, target, all);
  }
}
