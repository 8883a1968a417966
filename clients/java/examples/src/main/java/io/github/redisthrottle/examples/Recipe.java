package io.github.redisthrottle.examples;

/** Whether a user may call the service now: 30 calls a minute. */
public interface Recipe {
  /** The limit of the service. */
  int CALLS = 30;

  /** Counts a call, and says whether it may go ahead. */
  boolean allows(String user);
}
