package io.github.redisthrottle.spring;

import org.apache.commons.logging.LogFactory;
import org.springframework.beans.factory.InitializingBean;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.context.annotation.Bean;

/** Says that nothing is limited. */
@AutoConfiguration
@EnableConfigurationProperties(RateLimitProperties.class)
@ConditionalOnProperty(name = "redis-throttle.enabled", havingValue = "false")
public class RateLimitDisabledAutoConfiguration {
  @Bean
  InitializingBean rateLimitsAreDisabled() {
    return () -> LogFactory.getLog("io.github.redisthrottle").warn("redis-throttle: redis-throttle.enabled is false, so nothing is limited");
  }
}
