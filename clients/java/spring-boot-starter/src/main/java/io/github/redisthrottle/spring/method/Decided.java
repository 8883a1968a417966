package io.github.redisthrottle.spring.method;

import io.github.redisthrottle.Limit;
import io.github.redisthrottle.Result;
import io.github.redisthrottle.http.HeaderFields;
import java.util.List;
import java.util.Set;

/**
 * The decision about a call of a method in a request.
 *
 * @param limits the limits of each key
 * @param result the decision
 */
public record Decided(List<List<Limit>> limits, Result result) {
  /** The attribute of the request that has it. */
  public static final String ATTRIBUTE = Decided.class.getName();

  /** Returns it with the limits that counted, whose names are none of those in the response. */
  public Decided apart(Set<String> names) {
    return new Decided(HeaderFields.apart(result.inForce(limits), names), result);
  }
}
