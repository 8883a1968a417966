package io.github.redisthrottle.spring.testing;

import io.github.redisthrottle.FakeLimiter;
import org.springframework.test.context.TestContext;
import org.springframework.test.context.TestExecutionListener;

/** Gives each test a limiter that knows nothing of the tests before. */
public final class FakeLimiterListener implements TestExecutionListener {
  /** Makes one. */
  public FakeLimiterListener() {}

  @Override
  public void beforeTestMethod(TestContext context) {
    if (context.hasApplicationContext()) {
      context.getApplicationContext().getBeanProvider(FakeLimiter.class).stream().forEach(FakeLimiter::reset);
    }
  }
}
