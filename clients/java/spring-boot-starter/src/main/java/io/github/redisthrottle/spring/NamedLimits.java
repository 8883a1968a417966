package io.github.redisthrottle.spring;

import io.github.redisthrottle.Limit;
import io.github.redisthrottle.Limits;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/** The limits in {@code redis-throttle.limits}, by name. Each has the policy of its name, if it can be one's. */
public final class NamedLimits {
  private static final Pattern POLICY = Pattern.compile("[A-Za-z0-9._-]{1,64}");

  private final Map<String, List<Limit>> named = new LinkedHashMap<>();

  NamedLimits(Map<String, String> texts) {
    texts.forEach((name, text) -> named.put(name, Settings.value("redis-throttle.limits." + name, text, one -> called(name, Limits.parse(one)))));
  }

  /**
   * Returns limits with names for header fields and meters: those of a property are called as the property, unless they
   * have a NAME.
   */
  private static List<Limit> called(String name, List<Limit> limits) {
    List<Limit> called = new ArrayList<>();
    for (Limit limit : limits) {
      String numbered = limits.size() == 1 ? name : name + "-" + (called.size() + 1);
      called.add(limit.name().isEmpty() ? limit.named(numbered) : limit);
    }
    return POLICY.matcher(name).matches() ? Limits.policy(name, called) : List.copyOf(called);
  }

  /** Returns the names, with the limits of each. */
  public Map<String, List<Limit>> all() {
    return Collections.unmodifiableMap(named);
  }

  /**
   * Returns the limits of a name, or those that a text says.
   *
   * @throws IllegalArgumentException says what is wrong, and which names there are
   */
  public List<Limit> get(String text) {
    List<Limit> found = named.get(text);
    if (found != null) {
      return found;
    }
    if (text.isBlank()) {
      throw new IllegalArgumentException("limits are missing: give the name of limits, or limits such as RATE 5/s");
    }
    try {
      return Limits.parse(text);
    } catch (IllegalArgumentException e) {
      String names = named.isEmpty() ? "there are no names in redis-throttle.limits" : "the names are " + String.join(", ", named.keySet());
      throw new IllegalArgumentException("\"" + text + "\" is no name of limits (" + names + ") and no limits: " + e.getMessage(), e);
    }
  }

  /**
   * Returns the limits of a name, or those that a text says, under another policy than theirs. Without a text they are
   * those that are called as the policy.
   *
   * @param text null or empty without one
   * @param policy null or empty for that of the name
   * @throws IllegalArgumentException says what is wrong, and which names there are
   */
  public List<Limit> get(@Nullable String text, @Nullable String policy) {
    if (policy == null || policy.isEmpty()) {
      return get(text == null ? "" : text);
    }
    return Limits.policy(policy, get(text == null || text.isEmpty() ? policy : text));
  }

  /**
   * As {@link #get(String, String)}, for the values of the properties limits and policy. What is wrong is refused with
   * the name of the property.
   */
  public List<Limit> read(String property, @Nullable String limits, @Nullable String policy) {
    if (policy == null) {
      return Settings.value(property + ".limits", limits, one -> get(Objects.requireNonNull(one)));
    }
    if (limits != null) {
      Settings.value(property + ".limits", limits, one -> get(Objects.requireNonNull(one)));
    }
    return Settings.value(property + ".policy", policy, one -> get(limits, one));
  }

  /** As {@link #nameOf(String)}. Limits that have a policy and no name are called as the policy. */
  public String nameOf(@Nullable String text, @Nullable String policy) {
    boolean isNamed = text != null && named.containsKey(text);
    return isNamed || policy == null || policy.isEmpty() ? nameOf(Objects.requireNonNull(text)) : policy;
  }

  /** Returns what keys call limits that were given as a text: their name, or what they limit. */
  public String nameOf(String text) {
    return named.containsKey(text) ? text : get(text).stream().map(Limit::policy).collect(Collectors.joining(" "));
  }
}
