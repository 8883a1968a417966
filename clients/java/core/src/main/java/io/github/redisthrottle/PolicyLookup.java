package io.github.redisthrottle;

import java.util.HashMap;
import java.util.Map;
import java.util.TreeSet;
import org.jspecify.annotations.Nullable;

/**
 * Which policy counts for a key: the exact key, then the longest prefix, then the name. It never changes, and allocates
 * nothing.
 */
final class PolicyLookup {
  static final PolicyLookup NONE = new PolicyLookup(Map.of());

  private final Map<String, Named> names = new HashMap<>();

  /** The values of a name. */
  private static final class Named {
    final Map<String, PolicyValue> exact = new HashMap<>();
    final Map<String, PolicyValue> prefixes = new HashMap<>();
    @Nullable PolicyValue all; // null without one
    int[] lengths = {}; // of the prefixes, ascending
    String[] texts = {}; // the prefixes, by their hash: a table of which half is free
    PolicyValue[] values = {};

    void arrange() {
      TreeSet<Integer> sizes = new TreeSet<>();
      texts = new String[Integer.highestOneBit(Math.max(1, prefixes.size())) * 4];
      values = new PolicyValue[texts.length];
      prefixes.forEach(
          (prefix, value) -> {
            sizes.add(prefix.length());
            int at = at(prefix.hashCode());
            while (texts[at] != null) {
              at = (at + 1) & (texts.length - 1);
            }
            texts[at] = prefix;
            values[at] = value;
          });
      lengths = sizes.stream().mapToInt(Integer::intValue).toArray();
    }

    private int at(int hash) {
      return (hash ^ (hash >>> 16)) & (texts.length - 1);
    }

    /**
     * Returns the value of the longest prefix of a key. The hash of each prefix is that of the one before, and what
     * follows.
     */
    @Nullable PolicyValue longest(String key) {
      PolicyValue found = null;
      int hash = 0; // as String.hashCode says
      int read = 0;
      for (int length : lengths) {
        if (length > key.length()) {
          break;
        }
        for (; read < length; read++) {
          hash = 31 * hash + key.charAt(read);
        }
        for (int at = at(hash); texts[at] != null; at = (at + 1) & (texts.length - 1)) {
          if (texts[at].length() == length && key.startsWith(texts[at])) {
            found = values[at];
            break;
          }
        }
      }
      return found;
    }
  }

  /** Arranges values by their fields. */
  PolicyLookup(Map<String, PolicyValue> values) {
    values.forEach(
        (text, value) -> {
          PolicyField field = PolicyField.parse(text);
          Named named = names.computeIfAbsent(field.name(), name -> new Named());
          if (field.key() != null) {
            named.exact.put(field.key(), value);
          } else if (field.prefix() != null) {
            named.prefixes.put(field.prefix(), value);
          } else {
            named.all = value;
          }
        });
    names.values().forEach(Named::arrange);
  }

  /** Returns what counts for a key of a policy; null for the default of the code. */
  @Nullable PolicyValue find(String name, String key) {
    Named named = names.get(name);
    if (named == null) {
      return null;
    }
    PolicyValue found = named.exact.get(key);
    if (found == null) {
      found = named.longest(key);
    }
    return found == null ? named.all : found;
  }

  boolean isEmpty() {
    return names.isEmpty();
  }
}
