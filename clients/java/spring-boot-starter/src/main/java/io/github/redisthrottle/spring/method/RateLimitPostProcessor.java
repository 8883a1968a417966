package io.github.redisthrottle.spring.method;

import io.github.redisthrottle.spring.RateLimit;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import org.springframework.aop.framework.ProxyFactory;
import org.springframework.aop.framework.autoproxy.AbstractBeanFactoryAwareAdvisingPostProcessor;
import org.springframework.aop.support.AopUtils;
import org.springframework.aop.support.DefaultPointcutAdvisor;
import org.springframework.aop.support.StaticMethodMatcherPointcut;
import org.springframework.beans.factory.BeanFactory;
import org.springframework.util.ClassUtils;
import org.springframework.util.ReflectionUtils;

/**
 * Puts {@link RateLimitInterceptor} before methods with {@link RateLimit}, outside of transactions and caches, and
 * checks annotations.
 */
public final class RateLimitPostProcessor extends AbstractBeanFactoryAwareAdvisingPostProcessor {
  private static final long serialVersionUID = 1;

  @SuppressWarnings("NullAway.Init") // by setBeanFactory
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
    if (Proxies.isOfInterfaces(type)) { // its own methods are final, and have no names of parameters
      for (Class<?> one : ClassUtils.getAllInterfacesForClass(type)) {
        ReflectionUtils.doWithMethods(one, this::read, method -> !Modifier.isStatic(method.getModifiers()) && !method.isBridge());
      }
    } else if (!type.getName().startsWith("org.springframework.")) {
      ReflectionUtils.doWithMethods(type, method -> check(type, method),
          method -> !method.isBridge() && !method.isSynthetic() && method.getDeclaringClass() != Object.class);
    }
    return super.postProcessAfterInitialization(bean, beanName);
  }

  /** A proxy of interfaces, and a lambda, cannot be extended: they are limited by another proxy of their interfaces. */
  @Override
  protected ProxyFactory prepareProxyFactory(Object bean, String beanName) {
    ProxyFactory factory = super.prepareProxyFactory(bean, beanName);
    if (Proxies.isOfInterfaces(bean.getClass())) {
      factory.setInterfaces(ClassUtils.getAllInterfacesForClass(bean.getClass()));
      factory.setProxyTargetClass(false);
    }
    return factory;
  }

  private void read(Method method) {
    if (!RateLimitInterceptor.annotations(method).isEmpty()) {
      var unused = interceptor.limited(method, method.getDeclaringClass());
    }
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
    var unused = interceptor.limited(method, type);
  }

  /** The methods that have the annotation, or override one that has it. */
  private static final class Annotated extends StaticMethodMatcherPointcut {
    @Override
    public boolean matches(Method method, Class<?> targetClass) {
      return !RateLimitInterceptor.annotations(Proxies.method(method, targetClass)).isEmpty();
    }
  }
}
