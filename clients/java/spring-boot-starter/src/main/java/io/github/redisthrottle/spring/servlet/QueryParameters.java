package io.github.redisthrottle.spring.servlet;

import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import org.jspecify.annotations.Nullable;

/** The parameters in the query of a URL. */
final class QueryParameters {
  private QueryParameters() {}

  /** Returns the first value of a name; null without one. */
  static @Nullable String first(@Nullable String query, String name) {
    if (query == null) {
      return null;
    }
    for (String pair : query.split("&", -1)) {
      int equals = pair.indexOf('=');
      if (decoded(equals < 0 ? pair : pair.substring(0, equals)).equals(name)) {
        return equals < 0 ? "" : decoded(pair.substring(equals + 1));
      }
    }
    return null;
  }

  /** What is not encoded as it should be counts as it came: a client that writes it is limited like any other. */
  private static String decoded(String text) {
    try {
      return URLDecoder.decode(text, StandardCharsets.UTF_8);
    } catch (IllegalArgumentException e) {
      return text;
    }
  }
}
