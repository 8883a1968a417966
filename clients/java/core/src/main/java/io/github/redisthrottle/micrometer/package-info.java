/** Metrics of decisions with Micrometer. */
package io.github.redisthrottle.micrometer;
