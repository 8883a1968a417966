/**
 * What a web service says of a limit, by the same rules in every language: the key of a client's address, header
 * fields, the problem document, and what becomes of a request that could not be decided.
 */
@NullMarked
package io.github.redisthrottle.http;

import org.jspecify.annotations.NullMarked;
