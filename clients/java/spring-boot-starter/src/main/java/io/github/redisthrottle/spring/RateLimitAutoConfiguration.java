package io.github.redisthrottle.spring;

import io.github.redisthrottle.Call;
import io.github.redisthrottle.Decider;
import io.github.redisthrottle.Limiter;
import io.github.redisthrottle.Observed;
import io.github.redisthrottle.Remote;
import io.github.redisthrottle.Result;
import io.github.redisthrottle.connection.Connection;
import io.github.redisthrottle.spring.method.RateLimitPostProcessor;
import io.github.redisthrottle.spring.outgoing.OutgoingLimits;
import java.util.Optional;
import java.util.concurrent.CompletionStage;
import org.springframework.beans.factory.ListableBeanFactory;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.beans.factory.config.BeanDefinition;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.context.ApplicationEventPublisher;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Role;

/**
 * The limiter, limits by name, and limits of methods and of outgoing requests. A {@link Limiter} of the application's
 * own comes first.
 */
@AutoConfiguration(
    afterName = {
      "org.springframework.boot.autoconfigure.data.redis.RedisAutoConfiguration",
      "org.springframework.boot.data.redis.autoconfigure.DataRedisAutoConfiguration"
    })
@EnableConfigurationProperties(RateLimitProperties.class)
@ConditionalOnProperty(name = "redis-throttle.enabled", matchIfMissing = true)
public class RateLimitAutoConfiguration {
  /** The limits by name. */
  @Bean
  NamedLimits namedLimits(RateLimitProperties properties) {
    return new NamedLimits(properties.limits());
  }

  /** What becomes of calls without a decision. */
  @Bean
  Answers rateLimitAnswers(RateLimitProperties properties) {
    return properties.answers();
  }

  /** The connection to Redis. */
  @Bean
  @ConditionalOnMissingBean({Connection.class, Limiter.class})
  Connection rateLimitConnection(RateLimitProperties properties, ListableBeanFactory beans) {
    return Connections.of(properties, beans);
  }

  /** The limiter. */
  @Bean
  @ConditionalOnMissingBean
  Limiter rateLimiter(Connection connection, RateLimitProperties properties, ObjectProvider<DeciderCustomizer> customizers) {
    Remote remote = Remote.over(connection);
    if (properties.poll() != null) {
      remote = Settings.value("redis-throttle.poll", properties.poll(), remote::poll);
    }
    Decider decider = new Borrowed(properties.guard(remote));
    for (DeciderCustomizer customizer : customizers.orderedStream().toList()) {
      decider = customizer.customize(decider);
    }
    return Limiter.over(decider);
  }

  /** Publishes what is denied, and what fails. */
  @Bean
  DeciderCustomizer rateLimitEvents(ApplicationEventPublisher publisher) {
    return next -> Observed.of(next, (call, result, error, duration) -> publish(publisher, call, result, error));
  }

  private static void publish(ApplicationEventPublisher publisher, Call call, Result result, Throwable error) {
    if (error != null || result.limited()) {
      publisher.publishEvent(new RateLimitEvent(call, Optional.ofNullable(result), Optional.ofNullable(error)));
    }
  }

  /** The limits of requests to other services. */
  @Bean
  OutgoingLimits outgoingLimits(Limiter limiter, NamedLimits limits, Answers answers, RateLimitProperties properties) {
    return new OutgoingLimits(limiter, limits, answers, properties.outgoing());
  }

  /** Limits methods. */
  @Bean
  @Role(BeanDefinition.ROLE_INFRASTRUCTURE)
  static RateLimitPostProcessor rateLimitPostProcessor() {
    return new RateLimitPostProcessor();
  }

  /** A decider that the limiter does not close: its connection is a bean of its own. */
  private record Borrowed(Decider next) implements Decider {
    @Override
    public CompletionStage<Result> decide(Call call) {
      return next.decide(call);
    }

    @Override
    public String nodeOf(String key) {
      return next.nodeOf(key);
    }
  }
}
