/**
 * Help for tests of programs that use a limiter: a limiter in the process of the test,
 * {@link io.github.redisthrottle.FakeLimiter}, for JUnit, and a server of throttle-dev for what needs a socket.
 */
@NullMarked
package io.github.redisthrottle.testing;

import org.jspecify.annotations.NullMarked;
