package io.github.redisthrottle.spring;

import jakarta.servlet.Filter;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletRequestWrapper;
import java.security.Principal;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.web.servlet.FilterRegistrationBean;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;

class ServletTest extends WebTest {
  ServletTest() {
    super(WebApplicationType.SERVLET, SignIn.class);
  }

  /** Stands where Spring Security does. */
  @Configuration(proxyBeanMethods = false)
  static class SignIn {
    @Bean
    FilterRegistrationBean<Filter> signIn() {
      FilterRegistrationBean<Filter> bean =
          new FilterRegistrationBean<>((request, response, chain) -> chain.doFilter(new SignedIn((HttpServletRequest) request), response));
      bean.setOrder(-100);
      return bean;
    }
  }

  /** A request with the user of a field. */
  static class SignedIn extends HttpServletRequestWrapper {
    SignedIn(HttpServletRequest request) {
      super(request);
    }

    @Override
    public Principal getUserPrincipal() {
      String user = getHeader("X-User");
      return user == null ? null : () -> user;
    }
  }
}
