/**
 * Rate limits, quotas and leases that processes share through Redis or Valkey with the module redis-throttle.
 *
 * <p>{@link io.github.redisthrottle.Limiter} has the verbs. A {@link io.github.redisthrottle.Call} is a value, and a {@link
 * io.github.redisthrottle.Decider} decides it: a limiter is over any decider. {@code io.github.redisthrottle.lettuce} and {@code
 * io.github.redisthrottle.jedis} reach the server.
 */
package io.github.redisthrottle;
