/** The limiter beside those of others. */
package io.github.redisthrottle.bench;
