package io.github.redisthrottle.spring;

import io.github.redisthrottle.Decider;
import io.github.redisthrottle.Policies;
import io.github.redisthrottle.connection.Connection;
import java.util.Map;
import java.util.function.Supplier;

/** Puts {@link Policies} around the limiter. */
public final class PoliciesCustomizer implements DeciderCustomizer {
  private final Supplier<Connection> connection;
  private final Policies.Options options;
  private volatile Policies policies; // null before the limiter is made

  PoliciesCustomizer(Supplier<Connection> connection, Policies.Options options) {
    this.connection = connection;
    this.options = options;
  }

  @Override
  public Decider customize(Decider next) {
    policies = Policies.of(next, connection.get(), options);
    return policies;
  }

  /** Returns the policies in force, as they were read last: values by their fields. Empty before the first call. */
  public Map<String, String> inForce() {
    Policies made = policies;
    return made == null ? Map.of() : made.inForce();
  }
}
