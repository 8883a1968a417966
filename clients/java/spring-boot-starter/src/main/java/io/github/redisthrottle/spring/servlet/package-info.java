/** Limits of requests to servlet applications. */
@NullMarked
package io.github.redisthrottle.spring.servlet;

import org.jspecify.annotations.NullMarked;
