package io.github.redisthrottle.spring.method;

/** Finds the request in which a method is called. */
public interface Requests {
  /** Returns the request of this thread. */
  CurrentRequest ofThread();
}
