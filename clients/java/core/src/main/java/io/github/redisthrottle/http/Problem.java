package io.github.redisthrottle.http;

import io.github.redisthrottle.Limit;
import io.github.redisthrottle.Result;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;

/**
 * The problem document (RFC 9457) of a request that is denied.
 *
 * @param type the problem, as IANA registers it
 * @param title the problem in words
 * @param violated the name of the limit that denied it; empty where a ban or the policy of an outage did
 */
public record Problem(String type, String title, Optional<String> violated) {
  /** The media type of the document. */
  public static final String MEDIA_TYPE = "application/problem+json";

  /** The status of the response. */
  public static final int STATUS = 429;

  private static final String TYPES = "https://iana.org/assignments/http-problem-types#";

  /** Returns that of a call that was denied. {@code limits} are those of each key. */
  public static Problem of(List<List<Limit>> limits, Result result) {
    return ofInForce(HeaderFields.apart(result.inForce(limits), new HashSet<>()), result);
  }

  /** Returns that of a call that was denied by limits that counted, as {@link Result#inForce} has them. */
  public static Problem ofInForce(List<List<Limit>> inForce, Result result) {
    if (result.banned()) {
      return new Problem(TYPES + "abnormal-usage-detected", "Abnormal Usage Detected", Optional.empty());
    }
    Optional<String> violated =
        result.by() == Result.By.POLICY
            ? Optional.empty()
            : Optional.of(HeaderFields.name(inForce.get(result.keyIndex()), result.rule()));
    return new Problem(TYPES + "quota-exceeded", "Quota Exceeded", violated);
  }

  /** Returns it as JSON. */
  public String json() {
    String policies = violated.map(name -> ", \"violated-policies\": [\"" + name.replace("\\", "\\\\").replace("\"", "\\\"") + "\"]").orElse("");
    return "{\"type\": \"" + type + "\", \"title\": \"" + title + "\", \"status\": " + STATUS + policies + "}\n";
  }
}
