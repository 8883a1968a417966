package io.github.redisthrottle.spring.gateway;

import io.github.redisthrottle.Limiter;
import io.github.redisthrottle.spring.Answers;
import io.github.redisthrottle.spring.NamedLimits;
import io.github.redisthrottle.spring.RateLimitReactiveAutoConfiguration;
import io.github.redisthrottle.spring.Settings;
import io.github.redisthrottle.spring.web.WebLimits;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.springframework.beans.factory.SmartInitializingSingleton;
import org.springframework.beans.factory.annotation.Qualifier;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.boot.autoconfigure.condition.ConditionalOnWebApplication;
import org.springframework.cloud.gateway.config.GatewayProperties;
import org.springframework.cloud.gateway.filter.FilterDefinition;
import org.springframework.cloud.gateway.filter.ratelimit.RateLimiter;
import org.springframework.cloud.gateway.route.RouteDefinition;
import org.springframework.cloud.gateway.support.ConfigurationService;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Primary;

/**
 * The rate limiter and the filter Throttle for Spring Cloud Gateway. With {@code redis-throttle.gateway.replace-redis-rate-limiter} routes
 * with the filter RequestRateLimiter have this rate limiter; without it those with {@code rate-limiter: "#{@throttleRateLimiter}"}.
 */
@AutoConfiguration(after = RateLimitReactiveAutoConfiguration.class, beforeName = "org.springframework.cloud.gateway.config.GatewayAutoConfiguration")
@ConditionalOnWebApplication(type = ConditionalOnWebApplication.Type.REACTIVE)
@ConditionalOnClass(RateLimiter.class)
@ConditionalOnProperty(name = "spring.cloud.gateway.enabled", matchIfMissing = true)
public class ThrottleGatewayAutoConfiguration {
  @Configuration(proxyBeanMethods = false)
  @ConditionalOnProperty(name = "redis-throttle.gateway.replace-redis-rate-limiter", havingValue = "true")
  static class Replacing {
    @Bean(ThrottleRateLimiter.NAME)
    @Primary
    ThrottleRateLimiter throttleRateLimiter(Limiter limiter, NamedLimits limits, Answers answers, ConfigurationService service) {
      return new ThrottleRateLimiter(limiter, limits, answers, service);
    }
  }

  @Configuration(proxyBeanMethods = false)
  @ConditionalOnProperty(name = "redis-throttle.gateway.replace-redis-rate-limiter", havingValue = "false", matchIfMissing = true)
  static class Beside {
    @Bean(name = ThrottleRateLimiter.NAME, defaultCandidate = false)
    ThrottleRateLimiter throttleRateLimiter(Limiter limiter, NamedLimits limits, Answers answers, ConfigurationService service) {
      return new ThrottleRateLimiter(limiter, limits, answers, service);
    }
  }

  /** The filter Throttle. */
  @Bean
  @ConditionalOnBean(WebLimits.class)
  ThrottleGatewayFilterFactory throttleGatewayFilterFactory(WebLimits web) {
    return new ThrottleGatewayFilterFactory(web);
  }

  /** Checks the arguments of all filters at start. */
  @Bean
  SmartInitializingSingleton throttleArguments(
      GatewayProperties properties,
      @Qualifier(ThrottleRateLimiter.NAME) ThrottleRateLimiter limiter,
      ThrottleGatewayFilterFactory throttle,
      ConfigurationService service) {
    return () -> {
      check("default-filters", properties.getDefaultFilters(), limiter, throttle, service);
      List<RouteDefinition> routes = properties.getRoutes();
      for (int i = 0; i < routes.size(); i++) {
        check("routes[" + i + "].filters", routes.get(i).getFilters(), limiter, throttle, service);
      }
    };
  }

  private static void check(String property, List<FilterDefinition> filters, ThrottleRateLimiter limiter, ThrottleGatewayFilterFactory throttle, ConfigurationService service) {
    for (int i = 0; i < filters.size(); i++) {
      FilterDefinition filter = filters.get(i);
      String args = "spring.cloud.gateway." + property + "[" + i + "].args";
      if (filter.getName().equals("Throttle")) {
        ThrottleGatewayFilterFactory.Config config = new ThrottleGatewayFilterFactory.Config();
        Map<String, Object> named = new HashMap<>();
        filter.getArgs().forEach((name, value) -> named.put("throttle." + name, value));
        service.with(config).name("throttle").normalizedProperties(named).bind();
        var unused = throttle.route(args, config);
      } else if (filter.getName().equals("RequestRateLimiter") && ThrottleRateLimiter.concerns(filter.getArgs())) {
        Settings.value(args, filter.getArgs(), given -> limiter.read(new HashMap<>(given)));
      }
    }
  }
}
