/** What servlet and reactive applications share: routes, header fields, problem documents and the addresses of clients. */
package io.github.redisthrottle.spring.web;
