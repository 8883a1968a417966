/**
 * What servlet and reactive applications share: routes, header fields, problem documents and the addresses of clients.
 */
@NullMarked
package io.github.redisthrottle.spring.web;

import org.jspecify.annotations.NullMarked;
