package io.github.redisthrottle.spring.servlet;

import io.github.redisthrottle.CallInterruptedException;
import io.github.redisthrottle.http.HeaderFields;
import io.github.redisthrottle.http.Problem;
import io.github.redisthrottle.spring.web.Cors;
import io.github.redisthrottle.spring.web.Decision;
import io.github.redisthrottle.spring.web.Route;
import io.github.redisthrottle.spring.web.Routes;
import io.github.redisthrottle.spring.web.WebLimits;
import jakarta.servlet.FilterChain;
import jakarta.servlet.ServletException;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import org.springframework.core.Ordered;
import org.springframework.web.filter.OncePerRequestFilter;
import org.springframework.web.util.ServletRequestPathUtils;

/**
 * Limits requests by {@code redis-throttle.routes}. One stands before the filters of Spring Security, and one behind
 * them.
 */
public final class RateLimitFilter extends OncePerRequestFilter implements Ordered {
  private final Routes routes;
  private final WebLimits web;
  private final ServletCors cors;
  private final boolean afterSecurity;

  /** Makes one of the two filters. */
  public RateLimitFilter(Routes routes, WebLimits web, ServletCors cors, boolean afterSecurity) {
    this.cors = cors;
    this.routes = routes;
    this.web = web;
    this.afterSecurity = afterSecurity;
  }

  @Override
  public int getOrder() {
    return afterSecurity ? Routes.AFTER_SECURITY : Routes.BEFORE_SECURITY;
  }

  @Override
  protected void doFilterInternal(HttpServletRequest request, HttpServletResponse response, FilterChain chain) throws ServletException, IOException {
    Optional<Route> route = routes.match(request.getMethod(), ServletRequestPathUtils.parseAndCache(request).pathWithinApplication(), afterSecurity);
    if (route.isEmpty() || isFreePreflight(request)) {
      chain.doFilter(request, response);
      return;
    }
    Decision decision = await(route.get().decide(new ServletFacts(request, web)).toCompletableFuture());
    setFields(request, response, decision.fields());
    HttpServletResponse exposing = new ExposingResponse(response);
    if (decision.goesOn()) {
      chain.doFilter(request, exposing);
      return;
    }
    cors.apply(request, exposing);
    if (response.isCommitted()) { // CORS has refused the origin
      return;
    }
    byte[] body = decision.body().getBytes(StandardCharsets.UTF_8);
    response.setStatus(decision.status());
    response.setContentType(Problem.MEDIA_TYPE);
    response.setContentLength(body.length);
    response.getOutputStream().write(body);
  }

  /** Sets the fields of a response, and lets pages of other origins read them. */
  static void setFields(HttpServletRequest request, HttpServletResponse response, Map<String, String> fields) {
    fields.forEach((name, value) -> response.setHeader(name, HeaderFields.merged(name, value, response.getHeader(name))));
    boolean isExposed = response.getHeaders(Cors.EXPOSE).contains(Cors.FIELDS);
    if (request.getHeader(Cors.ORIGIN) != null && !fields.isEmpty() && !isExposed) {
      response.addHeader(Cors.EXPOSE, Cors.FIELDS);
    }
  }

  private boolean isFreePreflight(HttpServletRequest request) {
    return !web.preflights()
        && Cors.isPreflight(request.getMethod(), request.getHeader(Cors.ORIGIN), request.getHeader("Access-Control-Request-Method"));
  }

  private static Decision await(CompletableFuture<Decision> deciding) throws ServletException {
    try {
      return deciding.get();
    } catch (InterruptedException e) {
      deciding.cancel(true);
      Thread.currentThread().interrupt();
      throw new CallInterruptedException("interrupted while waiting for a decision", e);
    } catch (ExecutionException e) {
      throw new ServletException("the rate limit could not be decided", e.getCause());
    }
  }

  @Override
  protected String getAlreadyFilteredAttributeName() {
    return RateLimitFilter.class.getName() + (afterSecurity ? ".after" : ".before");
  }
}
