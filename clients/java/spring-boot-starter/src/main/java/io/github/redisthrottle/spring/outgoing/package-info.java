/** Limits of requests that the application sends. */
package io.github.redisthrottle.spring.outgoing;
