/** The limiter on Lettuce: one server, a cluster, or the master of a Sentinel. */
@NullMarked
package io.github.redisthrottle.lettuce;

import org.jspecify.annotations.NullMarked;
