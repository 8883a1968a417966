/** Limits of the routes of Spring Cloud Gateway. */
package io.github.redisthrottle.spring.gateway;
