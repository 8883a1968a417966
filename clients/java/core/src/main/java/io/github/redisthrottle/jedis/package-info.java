/** The limiter on Jedis: one server, a cluster, or the master of a Sentinel. */
package io.github.redisthrottle.jedis;
