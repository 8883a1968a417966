package io.github.redisthrottle.spring.method;

import java.util.Arrays;
import org.jspecify.annotations.Nullable;
import org.springframework.aot.hint.MemberCategory;
import org.springframework.beans.factory.aot.BeanRegistrationAotContribution;
import org.springframework.beans.factory.aot.BeanRegistrationAotProcessor;
import org.springframework.beans.factory.support.RegisteredBean;
import org.springframework.util.ReflectionUtils;

/** Has a native image keep the methods that answer in place of those that are denied: annotations have their names. */
final class FallbackHints implements BeanRegistrationAotProcessor {
  @Override
  public @Nullable BeanRegistrationAotContribution processAheadOfTime(RegisteredBean bean) {
    Class<?> type = bean.getBeanClass();
    return hasFallback(type)
        ? (context, code) -> context.getRuntimeHints().reflection().registerType(type, MemberCategory.INVOKE_DECLARED_METHODS)
        : null;
  }

  private static boolean hasFallback(Class<?> type) {
    try {
      return Arrays.stream(ReflectionUtils.getUniqueDeclaredMethods(type))
          .flatMap(method -> RateLimitInterceptor.annotations(method).stream())
          .anyMatch(one -> !one.fallbackMethod().isEmpty());
    } catch (IllegalStateException | LinkageError e) { // of a bean that names classes which are not there
      return false;
    }
  }
}
