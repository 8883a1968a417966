/**
 * Limits and leases in the shape of classes that many programs have: Guava's and Redisson's rate limiters, and
 * semaphores.
 */
@NullMarked
package io.github.redisthrottle.shapes;

import org.jspecify.annotations.NullMarked;
