package io.github.redisthrottle.spring.testing;

import io.github.redisthrottle.FakeLimiter;
import io.github.redisthrottle.Limiter;
import io.github.redisthrottle.spring.RateLimitAutoConfiguration;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.context.annotation.Bean;

/** A limiter of tests in place of Redis. */
@AutoConfiguration(before = RateLimitAutoConfiguration.class)
@ConditionalOnProperty(name = "redis-throttle.enabled", matchIfMissing = true)
@ConditionalOnMissingBean(Limiter.class)
public class FakeLimiterAutoConfiguration {
  /** The limiter of a test. */
  @Bean
  @ConditionalOnMissingBean
  FakeLimiter fakeLimiter() {
    return new FakeLimiter();
  }

  /** What the application asks. */
  @Bean
  Limiter rateLimiter(FakeLimiter fake) {
    return fake.limiter();
  }
}
