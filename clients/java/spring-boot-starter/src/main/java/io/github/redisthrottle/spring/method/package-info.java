/** Limits of methods. */
@NullMarked
package io.github.redisthrottle.spring.method;

import org.jspecify.annotations.NullMarked;
