/** Limits of methods. */
package io.github.redisthrottle.spring.method;
