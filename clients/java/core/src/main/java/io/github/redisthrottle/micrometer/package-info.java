/** Metrics of decisions with Micrometer. */
@NullMarked
package io.github.redisthrottle.micrometer;

import org.jspecify.annotations.NullMarked;
