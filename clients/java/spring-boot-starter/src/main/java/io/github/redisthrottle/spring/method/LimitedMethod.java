package io.github.redisthrottle.spring.method;

import io.github.redisthrottle.Call;
import io.github.redisthrottle.Keys;
import io.github.redisthrottle.Limit;
import io.github.redisthrottle.spring.Expressions;
import io.github.redisthrottle.spring.NamedLimits;
import io.github.redisthrottle.spring.RateLimit;
import io.github.redisthrottle.spring.Skip;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.springframework.core.ParameterNameDiscoverer;
import org.springframework.expression.EvaluationContext;
import org.springframework.expression.Expression;

/** The annotations of a method, read and checked. */
final class LimitedMethod {
  private final List<Part> parts = new ArrayList<>();
  private final @Nullable Fallback fallback;

  /** An annotation. {@code key}, {@code cost} and {@code skip} may be null. */
  private record Part(String name, @Nullable Expression key, List<Limit> limits, @Nullable Expression cost, @Nullable Skip skip) {}

  /** A call to decide, and the limits of each of its keys. */
  record Asked(Call call, List<List<Limit>> limits) {}

  LimitedMethod(Method method, Class<?> type, Collection<RateLimit> annotations, NamedLimits named, ParameterNameDiscoverer discoverer) {
    Suspending.check(method, getClass().getClassLoader());
    Set<String> variables = variables(method, discoverer);
    this.fallback =
        annotations.stream()
            .map(RateLimit::fallbackMethod)
            .filter(name -> !name.isEmpty())
            .findFirst()
            .map(name -> checked(method, "fallbackMethod", () -> Fallback.of(name, method, type)))
            .orElse(null);
    for (RateLimit one : annotations) {
      List<Limit> limits = checked(method, one.limits().isEmpty() && !one.policy().isEmpty() ? "policy" : "limits", () -> named.get(one.limits(), one.policy()));
      String name = one.name().isEmpty() ? named.nameOf(one.limits(), one.policy()) : one.name();
      parts.add(
          new Part(
              "method:" + name,
              one.key().isEmpty() ? null : checked(method, "key", () -> Expressions.parseKey(one.key(), variables)),
              limits,
              expression(method, "cost", one.cost(), variables),
              one.skip().isEmpty() ? null : checked(method, "skip", () -> Skip.of(one.skip(), text -> Expressions.parse(text, variables)))));
    }
  }

  private static Set<String> variables(Method method, ParameterNameDiscoverer discoverer) {
    Set<String> variables = new HashSet<>();
    String[] names = discoverer.getParameterNames(method);
    if (names != null) {
      variables.addAll(List.of(names));
    }
    for (int i = 0; i < Suspending.parameters(method).length; i++) {
      variables.add("p" + i);
      variables.add("a" + i);
    }
    return variables;
  }

  private static @Nullable Expression expression(Method method, String attribute, String text, Set<String> variables) {
    return text.isEmpty() ? null : checked(method, attribute, () -> Expressions.parse(text, variables));
  }

  private static <T> T checked(Method method, String attribute, Supplier<T> read) {
    try {
      return read.get();
    } catch (IllegalArgumentException e) {
      throw new IllegalArgumentException("@RateLimit of " + method.getDeclaringClass().getSimpleName() + "." + method.getName() + ": " + attribute + ": " + e.getMessage(), e);
    }
  }

  /** Returns what is called in place of the method; null without it. */
  @Nullable Fallback fallback() {
    return fallback;
  }

  /** Returns the call to decide; null if nothing is limited. */
  @Nullable Asked ask(EvaluationContext context) {
    List<List<Limit>> limits = new ArrayList<>();
    Keys keys = null;
    Call call = null;
    for (Part part : parts) {
      if (part.skip() != null && part.skip().applies(context)) {
        continue;
      }
      String key = part.key() == null ? part.name() : part.name() + ":" + Expressions.key(part.key(), context);
      long cost = part.cost() == null ? 1 : Expressions.cost(part.cost(), context);
      List<Limit> taken = cost == 1 || parts.size() == 1 ? part.limits() : part.limits().stream().map(limit -> limit.take(cost)).toList();
      limits.add(part.limits());
      keys = keys == null ? Keys.of(key, taken.toArray(Limit[]::new)) : keys.and(key, taken);
      call = Call.limit(key, taken).cost(parts.size() == 1 ? cost : 1);
    }
    if (call == null || keys == null) {
      return null;
    }
    if (limits.size() > 1) {
      call = Call.limitAll(keys);
    }
    return new Asked(limits.size() > 1 || limits.get(0).size() > 1 ? call.each() : call, limits);
  }
}
