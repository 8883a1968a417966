package io.github.redisthrottle;

/** What a call asks of a key: units of a {@link Limit}, or one of its {@link Slots}. */
public sealed interface Rule permits Limit, Slots {}
