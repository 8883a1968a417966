package io.github.redisthrottle.spring.method;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Arrays;
import org.aopalliance.intercept.MethodInvocation;
import org.jspecify.annotations.Nullable;
import org.springframework.util.ClassUtils;
import org.springframework.util.ReflectionUtils;

/**
 * A method that answers in place of one that was denied or could not be decided.
 *
 * @param method takes the same parameters, and possibly what went wrong
 * @param parameters how many the limited method takes, without the continuation of a function that suspends
 * @param takesError whether it takes that
 */
record Fallback(Method method, int parameters, boolean takesError) {
  /**
   * Finds it by its name.
   *
   * @throws IllegalArgumentException if there is none
   */
  static Fallback of(String name, Method limited, Class<?> type) {
    Class<?>[] same = Suspending.parameters(limited);
    Class<?> returned = Suspending.returned(limited);
    for (Method one : ReflectionUtils.getUniqueDeclaredMethods(type)) {
      Class<?>[] types = Suspending.parameters(one);
      boolean takesError = types.length == same.length + 1 && types[same.length].isAssignableFrom(RuntimeException.class);
      boolean fits = (takesError || types.length == same.length) && (Suspending.is(limited) || !Suspending.is(one));
      if (fits && one.getName().equals(name) && !one.equals(limited) && Arrays.equals(Arrays.copyOf(types, same.length), same)) {
        if (!ClassUtils.isAssignable(returned, Suspending.returned(one))) {
          throw new IllegalArgumentException(name + " returns no " + returned.getSimpleName());
        }
        ReflectionUtils.makeAccessible(one);
        return new Fallback(one, same.length, takesError);
      }
    }
    throw new IllegalArgumentException(
        "there is no method " + name + " with the same parameters, or with these and a RuntimeException, Exception or Throwable");
  }

  /** Calls it with what the caller has given, and what went wrong. */
  @Nullable Object call(MethodInvocation invocation, Throwable error) throws Throwable {
    Object[] arguments = invocation.getArguments();
    Object[] all = Arrays.copyOf(Arrays.copyOf(arguments, parameters), parameters + (takesError ? 1 : 0));
    if (takesError) {
      all[parameters] = error;
    }
    if (Suspending.is(method)) {
      return Suspending.call(method, invocation.getThis(), all, arguments[parameters]);
    }
    try {
      return method.invoke(invocation.getThis(), all);
    } catch (InvocationTargetException e) {
      throw e.getTargetException();
    }
  }
}
