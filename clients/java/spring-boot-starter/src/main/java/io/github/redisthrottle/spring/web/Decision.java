package io.github.redisthrottle.spring.web;

import io.github.redisthrottle.Limit;
import io.github.redisthrottle.Result;
import io.github.redisthrottle.http.HeaderFields;
import io.github.redisthrottle.http.Problem;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * What becomes of a request.
 *
 * @param fields header fields of its response
 * @param status the status of a response in place of the application's; 0 when the request goes on
 * @param body the problem document of that response
 */
public record Decision(Map<String, String> fields, int status, String body) {
  /** The request goes on, and its response says nothing of limits. */
  public static final Decision NONE = new Decision(Map.of(), 0, "");

  private static final String UNDECIDED = "{\"type\": \"about:blank\", \"title\": \"Service Unavailable\", \"status\": 503}\n";

  /** Returns whether the application serves the request. */
  public boolean goesOn() {
    return status == 0;
  }

  static Decision of(List<List<Limit>> limits, Result result, HeaderFields.XRateLimit extra, Set<String> names) {
    List<List<Limit>> named = HeaderFields.apart(result.inForce(limits), names);
    Map<String, String> fields = HeaderFields.ofInForce(named, result, extra);
    return result.allowed() ? new Decision(fields, 0, "") : new Decision(fields, Problem.STATUS, Problem.ofInForce(named, result).json());
  }

  static Decision undecided(long retryAfterSeconds) {
    return new Decision(Map.of("Retry-After", String.valueOf(retryAfterSeconds)), 503, UNDECIDED);
  }
}
