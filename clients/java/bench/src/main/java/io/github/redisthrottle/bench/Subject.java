package io.github.redisthrottle.bench;

/** A limiter that is measured: so many calls of a key in a period. */
interface Subject extends AutoCloseable {
  /** Asks for one unit of a key, and waits for the answer. */
  boolean allows(String key);

  @Override
  void close();
}
