package io.github.redisthrottle;

import java.util.ArrayList;
import java.util.List;

/**
 * Several keys with their limits, in order. In a cluster they need a common hash tag, such as {@code {acme}}.
 *
 * <pre>{@code
 * Keys.of("{acme}:ann", rate(5, ofSeconds(1))).and("{acme}", rate(100, ofSeconds(1)))
 * }</pre>
 */
public final class Keys {
  private final List<Key> keys;

  private Keys(List<Key> keys) {
    this.keys = keys;
  }

  /** Begins with a key and its limits. */
  public static Keys of(String key, Limit... limits) {
    return new Keys(List.of()).and(key, limits);
  }

  /** Begins with a key and its slots, for {@link Limiter#admit}. */
  public static Keys of(String key, Slots slots) {
    return new Keys(List.of()).and(key, slots);
  }

  /** Returns these keys and one more. */
  public Keys and(String key, Limit... limits) {
    return and(key, List.of(limits));
  }

  /** Returns these keys and one more. */
  public Keys and(String key, List<Limit> limits) {
    return and(new Key(key, Limits.checked(limits), 0, null, false));
  }

  /** Returns these keys and one more, whose slots are taken by {@link Limiter#admit}. */
  public Keys and(String key, Slots slots) {
    return and(new Key(key, List.of(), slots.count(), slots.ttl(), true));
  }

  /** Returns these keys and one more, whose slots {@link Limiter#settle} frees: it needs no numbers. */
  public Keys andSlots(String key) {
    return and(new Key(key, List.of(), 0, null, true));
  }

  private Keys and(Key key) {
    List<Key> more = new ArrayList<>(keys);
    more.add(key);
    return new Keys(List.copyOf(more));
  }

  List<Key> list() {
    return keys;
  }
}
