/** Limits of requests that the application sends. */
@NullMarked
package io.github.redisthrottle.spring.outgoing;

import org.jspecify.annotations.NullMarked;
