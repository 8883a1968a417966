package io.github.redisthrottle.spring.servlet;

import io.github.redisthrottle.http.Networks;
import io.github.redisthrottle.spring.Facts;
import io.github.redisthrottle.spring.web.WebLimits;
import jakarta.servlet.ServletRequest;
import jakarta.servlet.ServletRequestWrapper;
import jakarta.servlet.http.HttpServletRequest;
import java.security.Principal;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/** What expressions know of a request to a servlet application. */
public final class ServletFacts implements Facts {
  private final HttpServletRequest request;
  private final WebLimits web;

  /** Makes those of a request. */
  public ServletFacts(HttpServletRequest request, WebLimits web) {
    this.request = request;
    this.web = web;
  }

  @Override
  public String getAddress() {
    return web.client(request.getRemoteAddr(), isLocal(request), forwarded(request));
  }

  @Override
  public boolean isFrom(Networks networks) {
    // Spring's ForwardedHeaderFilter wraps the request, and has what a client wrote for the peer.
    HttpServletRequest received = received();
    return web.isFrom(networks, received.getRemoteAddr(), isLocal(received), forwarded(received));
  }

  private HttpServletRequest received() {
    ServletRequest at = request;
    while (at instanceof ServletRequestWrapper wrapper) {
      at = wrapper.getRequest();
    }
    return at instanceof HttpServletRequest received ? received : request;
  }

  private static boolean isLocal(HttpServletRequest request) {
    String local = request.getLocalAddr();
    return local == null || local.isEmpty();
  }

  private static List<String> forwarded(HttpServletRequest request) {
    return Collections.list(request.getHeaders("X-Forwarded-For"));
  }

  @Override
  public @Nullable String getPrincipal() {
    Principal principal = request.getUserPrincipal();
    return principal == null ? null : principal.getName();
  }

  @Override
  public String getMethod() {
    return request.getMethod();
  }

  @Override
  public String getPath() {
    return request.getRequestURI();
  }

  @Override
  public @Nullable String header(String name) {
    return request.getHeader(name);
  }

  @Override
  public @Nullable String query(String name) {
    // Not by getParameter, which reads the body of a form.
    return QueryParameters.first(request.getQueryString(), name);
  }

  @Override
  @SuppressWarnings("unchecked") // nobody else sets the attribute
  public Set<String> names() {
    if (request.getAttribute(NAMES) == null) {
      request.setAttribute(NAMES, new HashSet<String>());
    }
    return (Set<String>) request.getAttribute(NAMES);
  }
}
