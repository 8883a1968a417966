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
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.beans.factory.SmartInitializingSingleton;
import org.springframework.beans.factory.annotation.Qualifier;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.boot.autoconfigure.condition.ConditionalOnWebApplication;
import org.springframework.boot.context.properties.bind.Binder;
import org.springframework.cloud.gateway.config.GatewayProperties;
import org.springframework.cloud.gateway.filter.FilterDefinition;
import org.springframework.cloud.gateway.filter.factory.RequestRateLimiterGatewayFilterFactory;
import org.springframework.cloud.gateway.filter.ratelimit.RateLimiter;
import org.springframework.cloud.gateway.route.RouteDefinition;
import org.springframework.cloud.gateway.support.ConfigurationService;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Primary;
import org.springframework.core.env.Environment;

/**
 * The rate limiter and the filter Throttle for Spring Cloud Gateway. With
 * {@code redis-throttle.gateway.replace-redis-rate-limiter}, or where there is no other rate limiter, routes with the
 * filter RequestRateLimiter have this rate limiter; else those with {@code rate-limiter: "#{@throttleRateLimiter}"}.
 */
@AutoConfiguration(
    after = RateLimitReactiveAutoConfiguration.class,
    afterName = "org.springframework.cloud.gateway.config.GatewayRedisAutoConfiguration",
    beforeName = "org.springframework.cloud.gateway.config.GatewayAutoConfiguration")
@ConditionalOnWebApplication(type = ConditionalOnWebApplication.Type.REACTIVE)
@ConditionalOnClass(RateLimiter.class)
@ConditionalOnProperty(
    name = {"spring.cloud.gateway.server.webflux.enabled", "redis-throttle.enabled"},
    matchIfMissing = true)
public class ThrottleGatewayAutoConfiguration {
  @Configuration(proxyBeanMethods = false)
  @ConditionalOnProperty(name = "redis-throttle.gateway.replace-redis-rate-limiter", havingValue = "true")
  static class Replacing {
    @Bean(ThrottleRateLimiter.NAME)
    @Primary
    ThrottleRateLimiter throttleRateLimiter(Limiter limiter, NamedLimits limits, Answers answers, ConfigurationService service, Environment environment) {
      return limiter(limiter, limits, answers, service, environment);
    }
  }

  @Configuration(proxyBeanMethods = false)
  @ConditionalOnProperty(name = "redis-throttle.gateway.replace-redis-rate-limiter", havingValue = "false", matchIfMissing = true)
  static class NotReplacing {
    @Bean(ThrottleRateLimiter.NAME)
    @ConditionalOnMissingBean(RateLimiter.class)
    ThrottleRateLimiter onlyRateLimiter(Limiter limiter, NamedLimits limits, Answers answers, ConfigurationService service, Environment environment) {
      return limiter(limiter, limits, answers, service, environment);
    }

    @Bean(name = ThrottleRateLimiter.NAME, defaultCandidate = false)
    @ConditionalOnMissingBean(name = ThrottleRateLimiter.NAME)
    ThrottleRateLimiter rateLimiterBeside(Limiter limiter, NamedLimits limits, Answers answers, ConfigurationService service, Environment environment) {
      return limiter(limiter, limits, answers, service, environment);
    }
  }

  private static ThrottleRateLimiter limiter(Limiter limiter, NamedLimits limits, Answers answers, ConfigurationService service, Environment environment) {
    SpringsSettings springs = Binder.get(environment).bindOrCreate(SpringsSettings.PREFIX, SpringsSettings.class);
    boolean preflights = environment.getProperty("redis-throttle.preflights", boolean.class, false);
    return new ThrottleRateLimiter(limiter, limits, answers, service, springs, preflights);
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
      ConfigurationService service,
      ObjectProvider<RequestRateLimiterGatewayFilterFactory> factories) {
    return () -> {
      RequestRateLimiterGatewayFilterFactory factory = factories.getIfAvailable();
      boolean isDefault = factory != null && factory.getDefaultRateLimiter() == limiter;
      List<FilterDefinition> defaults = properties.getDefaultFilters();
      check("default-filters", defaults, limiter, throttle, service);
      boolean all = defaults.stream().anyMatch(filter -> ThrottleRateLimiter.concerns(filter.getArgs()));
      List<RouteDefinition> routes = properties.getRoutes();
      for (int i = 0; i < routes.size(); i++) {
        String property = "routes[" + i + "].filters";
        List<FilterDefinition> filters = routes.get(i).getFilters();
        check(property, filters, limiter, throttle, service);
        if (isDefault && !all && !limiter.isConfigured(routes.get(i).getId())) {
          refuseWithoutLimits(property, filters);
        }
      }
    };
  }

  private static String args(String property, int filter) {
    return "spring.cloud.gateway.server.webflux." + property + "[" + filter + "].args";
  }

  private static void refuseWithoutLimits(String property, List<FilterDefinition> filters) {
    for (int i = 0; i < filters.size(); i++) {
      Map<String, String> given = filters.get(i).getArgs();
      boolean hasOther = given.keySet().stream().anyMatch(arg -> arg.replace("-", "").equalsIgnoreCase("ratelimiter"));
      if (filters.get(i).getName().equals("RequestRateLimiter") && !hasOther && !ThrottleRateLimiter.concerns(given)) {
        throw Settings.wrong(args(property, i), given, "it has no limits: give redis-throttle.limits, or redis-rate-limiter.replenishRate and burstCapacity");
      }
    }
  }

  private static void check(String property, List<FilterDefinition> filters, ThrottleRateLimiter limiter, ThrottleGatewayFilterFactory throttle,
      ConfigurationService service) {
    for (int i = 0; i < filters.size(); i++) {
      FilterDefinition filter = filters.get(i);
      String args = args(property, i);
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
