/** Limits and leases in the shape of classes that many programs have: Guava's and Redisson's rate limiters, and semaphores. */
package io.github.redisthrottle.shapes;
