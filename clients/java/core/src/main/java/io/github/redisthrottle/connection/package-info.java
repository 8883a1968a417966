/**
 * The seam between the limiter and a client of Redis: {@link io.github.redisthrottle.connection.Connection} is what a client has to do.
 */
package io.github.redisthrottle.connection;
