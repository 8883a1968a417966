/** A service that takes 30 calls a minute of each user: recipes that are often seen, and the same with this package. */
package io.github.redisthrottle.examples;
