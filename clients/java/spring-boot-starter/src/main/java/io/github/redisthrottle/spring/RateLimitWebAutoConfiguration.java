package io.github.redisthrottle.spring;

import io.github.redisthrottle.Limiter;
import io.github.redisthrottle.spring.web.Routes;
import io.github.redisthrottle.spring.web.WebLimits;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.boot.autoconfigure.condition.ConditionalOnWebApplication;
import org.springframework.context.annotation.Bean;
import org.springframework.web.util.pattern.PathPattern;

/** What servlet and WebFlux applications have in common. */
@AutoConfiguration(after = RateLimitAutoConfiguration.class)
@ConditionalOnWebApplication
@ConditionalOnClass(PathPattern.class)
@ConditionalOnProperty(name = "redis-throttle.enabled", matchIfMissing = true)
public class RateLimitWebAutoConfiguration {
  /** What limits of requests have in common. */
  @Bean
  WebLimits webLimits(Limiter limiter, NamedLimits limits, Answers answers, RateLimitProperties properties) {
    return WebLimits.of(limiter, limits, answers, properties);
  }

  /** The routes. */
  @Bean
  Routes rateLimitRoutes(RateLimitProperties properties, WebLimits web) {
    return new Routes(properties.routes(), web);
  }
}
