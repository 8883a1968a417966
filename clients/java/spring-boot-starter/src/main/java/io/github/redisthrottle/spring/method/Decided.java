package io.github.redisthrottle.spring.method;

import io.github.redisthrottle.Limit;
import io.github.redisthrottle.Result;
import java.util.List;

/**
 * The decision about a call of a method in a request.
 *
 * @param limits the limits of each key
 * @param result the decision
 */
public record Decided(List<List<Limit>> limits, Result result) {
  /** The attribute of the request that has it. */
  public static final String ATTRIBUTE = Decided.class.getName();
}
