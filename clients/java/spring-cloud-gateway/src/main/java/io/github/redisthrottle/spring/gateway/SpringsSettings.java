package io.github.redisthrottle.spring.gateway;

import java.util.Map;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * How Spring's RedisRateLimiter is set up, apart from the arguments of routes.
 *
 * @param includeHeaders whether responses tell of limits
 * @param remainingHeader the header with what is left
 * @param replenishRateHeader the header with how many units come back in a second
 * @param burstCapacityHeader the header with how many units there are at most
 * @param requestedTokensHeader the header with how many units a request costs
 * @param config the arguments of routes, by the id of the route
 */
record SpringsSettings(
    @DefaultValue("true") boolean includeHeaders,
    @DefaultValue("X-RateLimit-Remaining") String remainingHeader,
    @DefaultValue("X-RateLimit-Replenish-Rate") String replenishRateHeader,
    @DefaultValue("X-RateLimit-Burst-Capacity") String burstCapacityHeader,
    @DefaultValue("X-RateLimit-Requested-Tokens") String requestedTokensHeader,
    @DefaultValue Map<String, ThrottleRateLimiter.Config> config) {
  /** Where the properties are. */
  static final String PREFIX = "spring.cloud.gateway.server.webflux.redis-rate-limiter";
}
