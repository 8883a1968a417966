package io.github.redisthrottle;

import java.lang.System.Logger.Level;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.BiConsumer;
import org.jspecify.annotations.Nullable;

/**
 * What counts after each reading of the hash of policies, and what is said of it. One thread at a time reads; any may
 * look up.
 */
final class PolicyTable {
  private static final int MOST_SAID = 20;

  private final String hash;
  private final BiConsumer<Level, String> log;
  private final Map<String, PolicyValue> counts = new HashMap<>();
  private Map<String, String> seen = Map.of(); // as it was read last, with what cannot be read
  private boolean wasRead;
  private boolean failing;
  private volatile PolicyLookup lookup = PolicyLookup.NONE;
  private volatile Map<String, String> inForce = Map.of();

  /** {@code hash} is what lines call it. */
  PolicyTable(String hash, BiConsumer<Level, String> log) {
    this.hash = hash;
    this.log = log;
  }

  PolicyLookup lookup() {
    return lookup;
  }

  /** Returns the fields that count with their values, in order. */
  Map<String, String> inForce() {
    return inForce;
  }

  /** Takes over what was read. Values that have not changed stay as they are. */
  void read(Map<String, String> now) {
    boolean first = !wasRead;
    if (failing) {
      log.accept(Level.WARNING, hash + " is read again");
    }
    wasRead = true;
    failing = false;
    if (now.equals(seen)) {
      return;
    }
    List<Map.Entry<Level, String>> said = new ArrayList<>();
    Set<String> fields = new TreeSet<>(seen.keySet());
    fields.addAll(now.keySet());
    for (String field : fields) {
      if (!field.startsWith("@")) {
        changed(field, seen.get(field), now.get(field), first, said);
      }
    }
    seen = Map.copyOf(now);
    lookup = counts.isEmpty() ? PolicyLookup.NONE : new PolicyLookup(counts);
    Map<String, String> values = new TreeMap<>();
    counts.forEach((field, value) -> values.put(field, value.text));
    inForce = Collections.unmodifiableMap(values);
    if (first && !counts.isEmpty()) {
      log.accept(Level.INFO, hash + ": " + (counts.size() == 1 ? "1 policy" : counts.size() + " policies"));
    }
    said.stream().limit(MOST_SAID).forEach(line -> log.accept(line.getKey(), line.getValue()));
    if (said.size() > MOST_SAID) {
      log.accept(Level.WARNING, hash + ": " + (said.size() - MOST_SAID) + " more changes");
    }
  }

  private void changed(String field, @Nullable String before, @Nullable String now, boolean first, List<Map.Entry<Level, String>> said) {
    if (now == null) {
      PolicyValue old = counts.remove(field);
      if (old != null) {
        said.add(Map.entry(Level.INFO, "policy " + field + " is not set any more, it was \"" + old.text + "\""));
      }
      return;
    }
    if (now.equals(before)) {
      return;
    }
    PolicyField parsed;
    try {
      parsed = PolicyField.parse(field);
    } catch (IllegalArgumentException e) {
      if (before == null) {
        said.add(Map.entry(Level.WARNING, hash + ": \"" + field + "\" is not the name of a policy, name/prefix* or name/key"));
      }
      return;
    }
    PolicyValue old = counts.get(field);
    try {
      PolicyValue value = PolicyValue.parse(parsed.name(), field, now);
      if (old != null && old.text.equals(now)) { // again, after one that could not be read
        return;
      }
      counts.put(field, value);
      if (!first) {
        said.add(Map.entry(Level.INFO, "policy " + field + " is \"" + now + "\" now, it was " + (old == null ? "not set" : "\"" + old.text + "\"")));
      }
    } catch (IllegalArgumentException e) {
      String counted = old == null ? "it does not count" : "\"" + old.text + "\" still counts";
      said.add(Map.entry(Level.WARNING, "policy " + field + ": \"" + now + "\" cannot be read, " + counted + ": " + e.getMessage()));
    }
  }

  /** Keeps what was read last. */
  void failed(Throwable error) {
    if (!failing) {
      failing = true;
      String counted = wasRead ? "what was read last counts" : "the defaults of the code count";
      log.accept(Level.WARNING, hash + " could not be read, " + counted + ": " + error.getMessage());
    }
  }
}
