package io.github.redisthrottle.spring.method;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.springframework.context.i18n.LocaleContext;
import org.springframework.context.i18n.LocaleContextHolder;
import org.springframework.util.ClassUtils;

/**
 * What the thread of a caller knows, for a method that runs in another one: the request, the locale, who has signed in,
 * the context of the log, and what is registered with Micrometer's context propagation.
 */
final class CallersContext {
  private static final boolean WEB = isPresent("org.springframework.web.context.request.RequestContextHolder");
  private static final boolean SECURITY = isPresent("org.springframework.security.core.context.SecurityContextHolder");
  private static final boolean MDC = isPresent("org.slf4j.MDC");
  private static final boolean MICROMETER = isPresent("io.micrometer.context.ContextSnapshotFactory");

  private final Thread captured = Thread.currentThread();
  private final List<Supplier<Runnable>> carried = new ArrayList<>();

  private CallersContext() {}

  private static boolean isPresent(String name) {
    return ClassUtils.isPresent(name, CallersContext.class.getClassLoader());
  }

  /** Captures that of this thread. */
  static CallersContext capture() {
    CallersContext context = new CallersContext();
    LocaleContext locale = LocaleContextHolder.getLocaleContext();
    context.carried.add(() -> localeSet(locale));
    if (MICROMETER) {
      context.carried.add(Micrometer.capture());
    }
    if (WEB) {
      context.carried.add(Web.capture());
    }
    if (SECURITY) {
      context.carried.add(Security.capture());
    }
    if (MDC) {
      context.carried.add(Log.capture());
    }
    return context;
  }

  /** Calls something in this thread, which knows it meanwhile, and nothing of it afterwards. */
  <T> T call(Supplier<T> body) {
    if (Thread.currentThread() == captured) {
      return body.get();
    }
    List<Runnable> undo = new ArrayList<>();
    try {
      carried.forEach(one -> undo.add(0, one.get()));
      return body.get();
    } finally {
      undo.forEach(Runnable::run);
    }
  }

  private static Runnable localeSet(@Nullable LocaleContext locale) {
    LocaleContext before = LocaleContextHolder.getLocaleContext();
    LocaleContextHolder.setLocaleContext(locale);
    return () -> LocaleContextHolder.setLocaleContext(before);
  }

  // Each of these is loaded only where its library is there. A supplier sets, and returns what undoes it.

  private static final class Web {
    static Supplier<Runnable> capture() {
      var request = org.springframework.web.context.request.RequestContextHolder.getRequestAttributes();
      return () -> {
        var before = org.springframework.web.context.request.RequestContextHolder.getRequestAttributes();
        org.springframework.web.context.request.RequestContextHolder.setRequestAttributes(request);
        return () -> org.springframework.web.context.request.RequestContextHolder.setRequestAttributes(before);
      };
    }
  }

  private static final class Security {
    static Supplier<Runnable> capture() {
      var signedIn = org.springframework.security.core.context.SecurityContextHolder.getContext();
      return () -> {
        var before = org.springframework.security.core.context.SecurityContextHolder.getContext();
        org.springframework.security.core.context.SecurityContextHolder.setContext(signedIn);
        return () -> restore(before);
      };
    }

    private static void restore(org.springframework.security.core.context.SecurityContext before) {
      org.springframework.security.core.context.SecurityContextHolder.clearContext();
      if (before.getAuthentication() != null) {
        org.springframework.security.core.context.SecurityContextHolder.setContext(before);
      }
    }
  }

  private static final class Log {
    static Supplier<Runnable> capture() {
      Map<String, String> known = org.slf4j.MDC.getCopyOfContextMap();
      return () -> {
        Map<String, String> before = org.slf4j.MDC.getCopyOfContextMap();
        set(known);
        return () -> set(before);
      };
    }

    private static void set(Map<String, String> known) {
      org.slf4j.MDC.clear();
      if (known != null) {
        org.slf4j.MDC.setContextMap(known);
      }
    }
  }

  private static final class Micrometer {
    static Supplier<Runnable> capture() {
      var snapshot = io.micrometer.context.ContextSnapshotFactory.builder().build().captureAll();
      return () -> {
        var scope = snapshot.setThreadLocals();
        return scope::close;
      };
    }
  }
}
