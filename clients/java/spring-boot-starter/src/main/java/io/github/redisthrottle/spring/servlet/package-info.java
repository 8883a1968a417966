/** Limits of requests to servlet applications. */
package io.github.redisthrottle.spring.servlet;
