/** Health and metrics. */
@NullMarked
package io.github.redisthrottle.spring.actuate;

import org.jspecify.annotations.NullMarked;
