package io.github.redisthrottle.spring.method;

import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import org.jspecify.annotations.Nullable;
import org.springframework.aop.support.AopUtils;
import org.springframework.util.ClassUtils;

/**
 * Beans whose class was made for their interfaces: proxies of the JDK, such as clients of HTTP interfaces and
 * repositories, and lambdas.
 */
final class Proxies {
  private Proxies() {}

  static boolean isOfInterfaces(Class<?> type) {
    return Proxy.isProxyClass(type) || ClassUtils.isLambdaClass(type);
  }

  /**
   * Returns the method that has the annotations and the names of parameters: that of the class, or else of the
   * interface.
   */
  static Method method(Method called, @Nullable Class<?> target) {
    return target == null || isOfInterfaces(target) ? called : AopUtils.getMostSpecificMethod(called, target);
  }
}
