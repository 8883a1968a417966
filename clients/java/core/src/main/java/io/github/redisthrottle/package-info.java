/**
 * Rate limits, quotas and leases that processes share through Redis or Valkey with the module redis-throttle.
 *
 * <p>{@link io.github.redisthrottle.Limiter} has the verbs. A {@link io.github.redisthrottle.Call} is a value, and a
 * {@link io.github.redisthrottle.Decider} decides it: a limiter is over any decider.
 * {@code io.github.redisthrottle.lettuce} and {@code io.github.redisthrottle.jedis} reach the server.
 *
 * <p>The package is larger than the others, since its classes share what is not public: the words of calls, the state
 * of results, how a server is called. In Java another package could use these only if everybody could.
 */
@NullMarked
package io.github.redisthrottle;

import org.jspecify.annotations.NullMarked;
