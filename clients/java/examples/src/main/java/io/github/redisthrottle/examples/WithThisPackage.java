package io.github.redisthrottle.examples;

import static io.github.redisthrottle.Limit.window;

import io.github.redisthrottle.Limit;
import io.github.redisthrottle.Limiter;
import java.time.Duration;

/** One command, decided by the server at one instant. */
public record WithThisPackage(Limiter limiter, Duration period) implements Recipe {
  @Override
  public boolean allows(String user) {
    Limit calls = window(CALLS, period);
    return limiter.limit("api:" + user, calls).allowed();
  }
}
