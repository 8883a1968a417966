package io.github.redisthrottle.spring;

import io.github.redisthrottle.Call;
import io.github.redisthrottle.Result;
import java.util.Optional;

/**
 * An event of the application, published for each call that is denied or fails. Listeners run where the decision
 * completes, and must not block.
 *
 * @param call the call
 * @param result why it is denied; empty of a call that failed
 * @param error why it failed, such as an {@link io.github.redisthrottle.OutageException}; empty of a call that is
 *     denied
 */
public record RateLimitEvent(Call call, Optional<Result> result, Optional<Throwable> error) {}
