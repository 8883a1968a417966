package io.github.redisthrottle.spring.method;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Arrays;
import org.aopalliance.intercept.MethodInvocation;
import org.springframework.util.ReflectionUtils;

/**
 * A method that answers in place of one that was denied or could not be decided.
 *
 * @param method takes the same parameters, and possibly what went wrong
 * @param takesError whether it takes that
 */
record Fallback(Method method, boolean takesError) {
  /**
   * Finds it by its name.
   *
   * @throws IllegalArgumentException if there is none
   */
  static Fallback of(String name, Method limited, Class<?> type) {
    Class<?>[] same = limited.getParameterTypes();
    for (Method one : ReflectionUtils.getUniqueDeclaredMethods(type)) {
      Class<?>[] types = one.getParameterTypes();
      boolean takesError = types.length == same.length + 1 && types[same.length].isAssignableFrom(RuntimeException.class);
      boolean fits = takesError || types.length == same.length;
      if (fits && one.getName().equals(name) && !one.equals(limited) && Arrays.equals(Arrays.copyOf(types, same.length), same)) {
        if (!limited.getReturnType().isAssignableFrom(one.getReturnType())) {
          throw new IllegalArgumentException(name + " returns no " + limited.getReturnType().getSimpleName());
        }
        ReflectionUtils.makeAccessible(one);
        return new Fallback(one, takesError);
      }
    }
    throw new IllegalArgumentException(
        "there is no method " + name + " with the same parameters, or with these and a RuntimeException, Exception or Throwable");
  }

  /** Calls it with what the caller has given, and what went wrong. */
  Object call(MethodInvocation invocation, Throwable error) throws Throwable {
    Object[] given = invocation.getArguments();
    Object[] all = takesError ? Arrays.copyOf(given, given.length + 1) : given;
    if (takesError) {
      all[given.length] = error;
    }
    try {
      return method.invoke(invocation.getThis(), all);
    } catch (InvocationTargetException e) {
      throw e.getTargetException();
    }
  }
}
