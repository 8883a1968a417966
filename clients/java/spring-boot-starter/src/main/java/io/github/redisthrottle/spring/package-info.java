/**
 * Rate limits of Spring applications: {@link io.github.redisthrottle.spring.RateLimit} on methods, limits and routes in
 * application.yml, and {@link io.github.redisthrottle.spring.outgoing.OutgoingLimits} for calls to other services.
 */
@NullMarked
package io.github.redisthrottle.spring;

import org.jspecify.annotations.NullMarked;
