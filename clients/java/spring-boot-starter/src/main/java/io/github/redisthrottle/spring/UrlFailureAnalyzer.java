package io.github.redisthrottle.spring;

import org.jspecify.annotations.Nullable;
import org.springframework.boot.context.properties.source.InvalidConfigurationPropertyValueException;
import org.springframework.boot.diagnostics.AbstractFailureAnalyzer;
import org.springframework.boot.diagnostics.FailureAnalysis;
import org.springframework.core.Ordered;

/** Tells what is wrong with {@code redis-throttle.url} without its value, which Boot would print with its password. */
final class UrlFailureAnalyzer extends AbstractFailureAnalyzer<InvalidConfigurationPropertyValueException> implements Ordered {
  private static final String URL = "redis-throttle.url";

  @Override
  public int getOrder() {
    return HIGHEST_PRECEDENCE; // before Boot's own
  }

  @Override
  protected @Nullable FailureAnalysis analyze(Throwable root, InvalidConfigurationPropertyValueException cause) {
    if (!cause.getName().equals(URL)) {
      return null;
    }
    String action = "Set " + URL + ", or the properties of Spring Data Redis. In a user or password, / is %2F, ? is %3F and # is %23.";
    return new FailureAnalysis("The property " + URL + " cannot be used: " + cause.getReason(), action, cause);
  }
}
