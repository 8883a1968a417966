/** The limiter on Lettuce: one server, a cluster, or the master of a Sentinel. */
package io.github.redisthrottle.lettuce;
