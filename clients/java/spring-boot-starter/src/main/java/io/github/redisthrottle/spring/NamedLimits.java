package io.github.redisthrottle.spring;

import io.github.redisthrottle.Limit;
import io.github.redisthrottle.Limits;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/** The limits in {@code redis-throttle.limits}, by name. */
public final class NamedLimits {
  private final Map<String, List<Limit>> named = new LinkedHashMap<>();

  NamedLimits(Map<String, String> texts) {
    texts.forEach((name, text) -> named.put(name, Settings.value("redis-throttle.limits." + name, text, one -> called(name, Limits.parse(one)))));
  }

  /** Returns limits with names for header fields and meters: those of a property are called as the property, unless they have a NAME. */
  private static List<Limit> called(String name, List<Limit> limits) {
    List<Limit> called = new ArrayList<>();
    for (Limit limit : limits) {
      String numbered = limits.size() == 1 ? name : name + "-" + (called.size() + 1);
      called.add(limit.name().isEmpty() ? limit.named(numbered) : limit);
    }
    return List.copyOf(called);
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

  /** Returns what keys call limits that were given as a text: their name, or what they limit. */
  public String nameOf(String text) {
    return named.containsKey(text) ? text : get(text).stream().map(Limit::policy).collect(Collectors.joining(" "));
  }
}
