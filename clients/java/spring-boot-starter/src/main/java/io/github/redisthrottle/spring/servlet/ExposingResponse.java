package io.github.redisthrottle.spring.servlet;

import io.github.redisthrottle.spring.web.Cors;
import jakarta.servlet.http.HttpServletResponse;
import jakarta.servlet.http.HttpServletResponseWrapper;

/**
 * Keeps the fields of limits exposed to pages of other origins where the application's CORS sets its own: Spring 7
 * replaces what was there.
 */
final class ExposingResponse extends HttpServletResponseWrapper {
  ExposingResponse(HttpServletResponse response) {
    super(response);
  }

  @Override
  public void setHeader(String name, String value) {
    boolean loses = name.equalsIgnoreCase(Cors.EXPOSE) && getHeaders(name).contains(Cors.FIELDS);
    super.setHeader(name, value);
    if (loses && value != null && !value.equals(Cors.FIELDS)) {
      addHeader(name, Cors.FIELDS);
    }
  }
}
