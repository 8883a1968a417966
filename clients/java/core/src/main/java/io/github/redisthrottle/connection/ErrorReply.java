package io.github.redisthrottle.connection;

/**
 * A reply that is an error.
 *
 * @param text what the server says
 */
public record ErrorReply(String text) {}
