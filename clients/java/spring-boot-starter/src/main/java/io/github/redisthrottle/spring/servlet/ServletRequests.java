package io.github.redisthrottle.spring.servlet;

import io.github.redisthrottle.http.HeaderFields;
import io.github.redisthrottle.spring.Facts;
import io.github.redisthrottle.spring.method.CurrentRequest;
import io.github.redisthrottle.spring.method.Decided;
import io.github.redisthrottle.spring.method.Requests;
import io.github.redisthrottle.spring.web.WebLimits;
import jakarta.servlet.http.HttpServletResponse;
import org.springframework.web.context.request.RequestContextHolder;
import org.springframework.web.context.request.ServletRequestAttributes;

/** Finds the request of a servlet application in which a method is called. */
public final class ServletRequests implements Requests {
  private final WebLimits web;

  /** Makes one. */
  public ServletRequests(WebLimits web) {
    this.web = web;
  }

  @Override
  public CurrentRequest ofThread() {
    return RequestContextHolder.getRequestAttributes() instanceof ServletRequestAttributes attributes ? new Current(attributes, web) : CurrentRequest.NONE;
  }

  private record Current(ServletRequestAttributes attributes, WebLimits web) implements CurrentRequest {
    @Override
    public Facts facts() {
      return new ServletFacts(attributes.getRequest(), web);
    }

    @Override
    public void decided(Decided all) {
      Decided decided = all.apart(facts().names());
      attributes.getRequest().setAttribute(Decided.ATTRIBUTE, decided);
      HttpServletResponse response = attributes.getResponse();
      if (response != null) {
        RateLimitFilter.setFields(attributes.getRequest(), response, HeaderFields.ofInForce(decided.limits(), decided.result(), web.extra()));
      }
    }
  }
}
