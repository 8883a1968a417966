/**
 * The seam between the limiter and a client of Redis: {@link io.github.redisthrottle.connection.Connection} is what a
 * client has to do.
 */
@NullMarked
package io.github.redisthrottle.connection;

import org.jspecify.annotations.NullMarked;
