package io.github.redisthrottle.spring.web;

import org.jspecify.annotations.Nullable;

/** What browsers need of responses to requests of another origin. */
public final class Cors {
  /** The request's field that says where the page came from. */
  public static final String ORIGIN = "Origin";

  /** The field that says which other fields the page may read. */
  public static final String EXPOSE = "Access-Control-Expose-Headers";

  /** The fields of limits. */
  public static final String FIELDS = "RateLimit, RateLimit-Policy, Retry-After";

  /** The field that lets the page read the response. */
  public static final String ALLOW_ORIGIN = "Access-Control-Allow-Origin";

  private Cors() {}

  /** Returns whether a request is a preflight: a browser's question whether the page may send another one. */
  public static boolean isPreflight(String method, @Nullable String origin, @Nullable String requestMethod) {
    return method.equals("OPTIONS") && origin != null && requestMethod != null;
  }
}
