/** Limits of requests to WebFlux applications. */
package io.github.redisthrottle.spring.reactive;
