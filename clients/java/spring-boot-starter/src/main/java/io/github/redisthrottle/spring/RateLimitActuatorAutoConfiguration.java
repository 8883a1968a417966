package io.github.redisthrottle.spring;

import io.github.redisthrottle.Limiter;
import io.github.redisthrottle.connection.Connection;
import io.github.redisthrottle.micrometer.Metered;
import io.github.redisthrottle.spring.actuate.Boot3HealthIndicator;
import io.github.redisthrottle.spring.actuate.Boot4HealthIndicator;
import io.github.redisthrottle.spring.actuate.RateLimitsEndpoint;
import io.micrometer.core.instrument.MeterRegistry;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.Ordered;
import org.springframework.core.annotation.Order;

/** Health and metrics, where the application has the actuator. */
@AutoConfiguration(
    before = RateLimitAutoConfiguration.class,
    afterName = {
      "org.springframework.boot.actuate.autoconfigure.metrics.CompositeMeterRegistryAutoConfiguration",
      "org.springframework.boot.actuate.autoconfigure.metrics.export.simple.SimpleMetricsExportAutoConfiguration",
      "org.springframework.boot.micrometer.metrics.autoconfigure.CompositeMeterRegistryAutoConfiguration",
      "org.springframework.boot.micrometer.metrics.autoconfigure.export.simple.SimpleMetricsExportAutoConfiguration"
    })
@ConditionalOnProperty(name = "redis-throttle.enabled", matchIfMissing = true)
public class RateLimitActuatorAutoConfiguration {
  @Configuration(proxyBeanMethods = false)
  @ConditionalOnClass(MeterRegistry.class)
  static class Metrics {
    /** Measures around everything else, so that it sees what was decided where. */
    @Bean
    @Order(Ordered.LOWEST_PRECEDENCE)
    @ConditionalOnBean(MeterRegistry.class)
    DeciderCustomizer rateLimitMetrics(MeterRegistry registry) {
      return next -> Metered.of(next, registry);
    }
  }

  @Configuration(proxyBeanMethods = false)
  @ConditionalOnClass(name = "org.springframework.boot.actuate.health.HealthIndicator")
  @ConditionalOnProperty(name = "management.health.redis-throttle.enabled", matchIfMissing = true)
  static class Boot3 {
    @Bean
    Boot3HealthIndicator redisThrottleHealthIndicator(Limiter limiter) {
      return new Boot3HealthIndicator(limiter);
    }
  }

  @Configuration(proxyBeanMethods = false)
  @ConditionalOnClass(name = "org.springframework.boot.health.contributor.HealthIndicator")
  @ConditionalOnProperty(name = "management.health.redis-throttle.enabled", matchIfMissing = true)
  static class Boot4 {
    @Bean
    Boot4HealthIndicator redisThrottleHealthIndicator(Limiter limiter) {
      return new Boot4HealthIndicator(limiter);
    }
  }

  @Configuration(proxyBeanMethods = false)
  @ConditionalOnClass(name = "org.springframework.boot.actuate.endpoint.annotation.Endpoint")
  static class Endpoints {
    @Bean
    RateLimitsEndpoint rateLimitsEndpoint(
        NamedLimits limits, RateLimitProperties properties, ObjectProvider<Connection> connections, ObjectProvider<PoliciesCustomizer> policies) {
      return new RateLimitsEndpoint(limits, properties, connections.getIfAvailable(), policies.getIfAvailable());
    }
  }
}
