/** Tests of Spring applications, in which a {@link io.github.redisthrottle.FakeLimiter} decides. */
package io.github.redisthrottle.spring.testing;
