/** The limiter on Jedis: one server, a cluster, or the master of a Sentinel. */
@NullMarked
package io.github.redisthrottle.jedis;

import org.jspecify.annotations.NullMarked;
