/** Limits of requests to WebFlux applications. */
@NullMarked
package io.github.redisthrottle.spring.reactive;

import org.jspecify.annotations.NullMarked;
