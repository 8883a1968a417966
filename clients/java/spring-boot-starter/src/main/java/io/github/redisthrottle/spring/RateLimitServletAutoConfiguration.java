package io.github.redisthrottle.spring;

import io.github.redisthrottle.spring.method.Requests;
import io.github.redisthrottle.spring.servlet.RateLimitAdvice;
import io.github.redisthrottle.spring.servlet.RateLimitFilter;
import io.github.redisthrottle.spring.servlet.ServletCors;
import io.github.redisthrottle.spring.servlet.ServletRequests;
import io.github.redisthrottle.spring.web.Routes;
import io.github.redisthrottle.spring.web.WebLimits;
import jakarta.servlet.Filter;
import org.springframework.beans.factory.ListableBeanFactory;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.boot.autoconfigure.condition.ConditionalOnWebApplication;
import org.springframework.context.annotation.Bean;
import org.springframework.web.filter.OncePerRequestFilter;

/** Limits of requests to servlet applications. */
@AutoConfiguration(after = RateLimitWebAutoConfiguration.class)
@ConditionalOnWebApplication(type = ConditionalOnWebApplication.Type.SERVLET)
@ConditionalOnClass({Filter.class, OncePerRequestFilter.class})
@ConditionalOnProperty(name = "redis-throttle.enabled", matchIfMissing = true)
public class RateLimitServletAutoConfiguration {
  /** Limits requests before Spring Security sees them. */
  @Bean
  RateLimitFilter rateLimitFilter(Routes routes, WebLimits web, ListableBeanFactory beans) {
    return new RateLimitFilter(routes, web, new ServletCors(beans), false);
  }

  /** Limits requests by who has signed in. */
  @Bean
  RateLimitFilter principalRateLimitFilter(Routes routes, WebLimits web, ListableBeanFactory beans) {
    return new RateLimitFilter(routes, web, new ServletCors(beans), true);
  }

  /** The request in which a method is called. */
  @Bean
  Requests rateLimitRequests(WebLimits web) {
    return new ServletRequests(web);
  }

  /** Responses of controllers whose call was denied. */
  @Bean
  RateLimitAdvice rateLimitAdvice() {
    return new RateLimitAdvice();
  }
}
