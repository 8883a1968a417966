package io.github.redisthrottle.spring;

import io.github.redisthrottle.Limit;
import io.github.redisthrottle.Limits;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/** The limits in {@code redis-throttle.limits}, by name. */
public final class NamedLimits {
  private final Map<String, List<Limit>> named = new LinkedHashMap<>();

  NamedLimits(Map<String, String> texts) {
    texts.forEach((name, text) -> named.put(name, Settings.value("redis-throttle.limits." + name, text, Limits::parse)));
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
