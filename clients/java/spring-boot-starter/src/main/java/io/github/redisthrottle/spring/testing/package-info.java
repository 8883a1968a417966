/** Tests of Spring applications, in which a {@link io.github.redisthrottle.FakeLimiter} decides. */
@NullMarked
package io.github.redisthrottle.spring.testing;

import org.jspecify.annotations.NullMarked;
