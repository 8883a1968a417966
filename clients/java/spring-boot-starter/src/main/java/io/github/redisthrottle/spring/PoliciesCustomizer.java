package io.github.redisthrottle.spring;

import io.github.redisthrottle.Decider;
import io.github.redisthrottle.Policies;
import io.github.redisthrottle.connection.Connection;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/** Puts {@link Policies} around the limiter. */
public final class PoliciesCustomizer implements DeciderCustomizer {
  private final Supplier<Connection> connection;
  private final Policies.Options options;
  private volatile @Nullable Policies policies; // null before the limiter is made

  PoliciesCustomizer(Supplier<Connection> connection, Policies.Options options) {
    this.connection = connection;
    this.options = options;
  }

  @Override
  public Decider customize(Decider next) {
    Policies made = Policies.of(next, connection.get(), options);
    policies = made;
    return made;
  }

  /**
   * Returns the policies in force: values by their fields. It reads them anew, or where that takes longer, as they were
   * read last.
   */
  public Map<String, String> inForce(Duration longest) {
    Policies made = policies;
    if (made == null) {
      return Map.of();
    }
    return made.inForceNow().toCompletableFuture().completeOnTimeout(made.inForce(), longest.toMillis(), TimeUnit.MILLISECONDS).join();
  }
}
