/** Limits of the routes of Spring Cloud Gateway. */
@NullMarked
package io.github.redisthrottle.spring.gateway;

import org.jspecify.annotations.NullMarked;
