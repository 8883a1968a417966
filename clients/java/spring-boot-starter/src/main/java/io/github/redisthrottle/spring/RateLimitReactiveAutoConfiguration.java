package io.github.redisthrottle.spring;

import io.github.redisthrottle.connection.Connection;
import io.github.redisthrottle.spring.method.SubscribedRequests;
import io.github.redisthrottle.spring.reactive.RateLimitWebFilter;
import io.github.redisthrottle.spring.reactive.ReactiveCors;
import io.github.redisthrottle.spring.reactive.ReactiveRateLimitAdvice;
import io.github.redisthrottle.spring.reactive.ReactiveRequests;
import io.github.redisthrottle.spring.web.Routes;
import io.github.redisthrottle.spring.web.WebLimits;
import org.springframework.beans.factory.ListableBeanFactory;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.boot.autoconfigure.condition.ConditionalOnWebApplication;
import org.springframework.context.annotation.Bean;
import org.springframework.core.Ordered;
import org.springframework.core.annotation.Order;
import org.springframework.web.server.WebFilter;
import reactor.core.publisher.Mono;

/** Limits of requests to WebFlux applications. */
@AutoConfiguration(after = RateLimitWebAutoConfiguration.class)
@ConditionalOnWebApplication(type = ConditionalOnWebApplication.Type.REACTIVE)
@ConditionalOnClass({WebFilter.class, Mono.class})
@ConditionalOnProperty(name = "redis-throttle.enabled", matchIfMissing = true)
public class RateLimitReactiveAutoConfiguration {
  /** Limits requests before Spring Security sees them. */
  @Bean
  RateLimitWebFilter rateLimitWebFilter(Routes routes, WebLimits web, ListableBeanFactory beans) {
    return new RateLimitWebFilter(routes, web, new ReactiveCors(beans), false);
  }

  /** Limits requests by who has signed in. */
  @Bean
  RateLimitWebFilter principalRateLimitWebFilter(Routes routes, WebLimits web, ListableBeanFactory beans) {
    return new RateLimitWebFilter(routes, web, new ReactiveCors(beans), true);
  }

  /** Keeps Jedis, which blocks, out of the threads that serve requests. */
  @Bean
  @Order(Ordered.HIGHEST_PRECEDENCE)
  DeciderCustomizer offEventLoops(ObjectProvider<Connection> connections) {
    Connection connection = connections.getIfAvailable();
    return connection != null && Connections.blocks(connection) ? new OffEventLoops() : next -> next;
  }

  /** The request in which a method is called. */
  @Bean
  SubscribedRequests rateLimitRequests(WebLimits web) {
    return new ReactiveRequests(web);
  }

  /** Responses of controllers whose call was denied. */
  @Bean
  ReactiveRateLimitAdvice rateLimitAdvice() {
    return new ReactiveRateLimitAdvice();
  }
}
