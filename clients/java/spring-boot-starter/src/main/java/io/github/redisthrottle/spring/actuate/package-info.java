/** Health and metrics. */
package io.github.redisthrottle.spring.actuate;
