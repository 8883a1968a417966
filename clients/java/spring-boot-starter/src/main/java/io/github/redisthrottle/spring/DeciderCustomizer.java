package io.github.redisthrottle.spring;

import io.github.redisthrottle.Decider;

/**
 * Puts a decider around the one on Redis, such as a cache. Beans of this type are applied in their order, the first one
 * innermost.
 */
@FunctionalInterface
public interface DeciderCustomizer {
  /** Returns what decides in place of {@code next}. */
  Decider customize(Decider next);
}
