package io.github.redisthrottle.spring;

import io.github.redisthrottle.Policies;
import io.github.redisthrottle.connection.Connection;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.context.annotation.Bean;

/**
 * Numbers of limits that a hash in Redis changes. It comes before what observes, and behind the customizers of the
 * application, such as a cache.
 */
@AutoConfiguration(before = {RateLimitActuatorAutoConfiguration.class, RateLimitAutoConfiguration.class})
@EnableConfigurationProperties(RateLimitProperties.class)
@ConditionalOnProperty(name = {"redis-throttle.enabled", "redis-throttle.policies.enabled"}, matchIfMissing = true)
public class RateLimitPoliciesAutoConfiguration {
  /** The layer, over the connection of the limiter. */
  @Bean
  PoliciesCustomizer rateLimitPolicies(ObjectProvider<Connection> connections, RateLimitProperties properties) {
    Policies.Options options = Policies.Options.DEFAULT;
    options = Settings.value("redis-throttle.policies.hash", properties.policies().hash(), options::hash);
    options = Settings.value("redis-throttle.policies.refresh", properties.policies().refresh(), options::refresh);
    return new PoliciesCustomizer(connections::getObject, options);
  }
}
