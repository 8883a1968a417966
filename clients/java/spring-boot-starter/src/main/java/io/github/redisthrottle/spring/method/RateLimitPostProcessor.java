package io.github.redisthrottle.spring.method;

import io.github.redisthrottle.spring.RateLimit;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import org.springframework.aop.framework.autoproxy.AbstractBeanFactoryAwareAdvisingPostProcessor;
import org.springframework.aop.support.AopUtils;
import org.springframework.aop.support.DefaultPointcutAdvisor;
import org.springframework.aop.support.StaticMethodMatcherPointcut;
import org.springframework.beans.factory.BeanFactory;
import org.springframework.util.ReflectionUtils;

/** Puts {@link RateLimitInterceptor} before methods with {@link RateLimit}, outside of transactions and caches, and checks annotations. */
public final class RateLimitPostProcessor extends AbstractBeanFactoryAwareAdvisingPostProcessor {
  private static final long serialVersionUID = 1;

  private transient RateLimitInterceptor interceptor;

  /** Makes one. */
  public RateLimitPostProcessor() {
    setBeforeExistingAdvisors(true);
    setProxyTargetClass(true);
  }

  @Override
  public void setBeanFactory(BeanFactory beans) {
    super.setBeanFactory(beans);
    interceptor = new RateLimitInterceptor(beans);
    this.advisor = new DefaultPointcutAdvisor(new Annotated(), interceptor);
  }

  @Override
  public Object postProcessAfterInitialization(Object bean, String beanName) {
    Class<?> type = AopUtils.getTargetClass(bean);
    if (!type.getName().startsWith("org.springframework.")) {
      ReflectionUtils.doWithMethods(type, method -> check(type, method), method -> !method.isBridge() && !method.isSynthetic() && method.getDeclaringClass() != Object.class);
    }
    return super.postProcessAfterInitialization(bean, beanName);
  }

  private void check(Class<?> type, Method method) {
    if (RateLimitInterceptor.annotations(method).isEmpty()) {
      return;
    }
    int modifiers = method.getModifiers();
    if (Modifier.isPrivate(modifiers) || Modifier.isStatic(modifiers) || Modifier.isFinal(modifiers)) {
      throw new IllegalArgumentException(
          "@RateLimit of " + method.getDeclaringClass().getSimpleName() + "." + method.getName() + ": a proxy cannot limit a method that is private, static or final");
    }
    if (Modifier.isFinal(type.getModifiers())) {
      throw new IllegalArgumentException(
          "@RateLimit of " + type.getSimpleName() + "." + method.getName() + ": the class is final, and a proxy extends it (in Kotlin, open it or use the plugin kotlin-spring)");
    }
    var unused = interceptor.limited(method);
  }

  /** The methods that have the annotation, or override one that has it. */
  private static final class Annotated extends StaticMethodMatcherPointcut {
    @Override
    public boolean matches(Method method, Class<?> targetClass) {
      return !RateLimitInterceptor.annotations(AopUtils.getMostSpecificMethod(method, targetClass)).isEmpty();
    }
  }
}
