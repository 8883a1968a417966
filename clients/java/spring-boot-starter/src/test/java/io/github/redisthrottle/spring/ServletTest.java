package io.github.redisthrottle.spring;

import static org.junit.jupiter.api.Assertions.assertEquals;

import jakarta.servlet.Filter;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletRequestWrapper;
import java.io.IOException;
import java.net.InetAddress;
import java.net.Socket;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.security.Principal;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
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

  /** A client can write it, and would choose what becomes of calls without a decision. */
  @Test
  void aQueryThatIsNotEncodedAsItShouldBeIsLimited() throws IOException {
    List<String> statuses = new ArrayList<>();
    for (int i = 0; i < 3; i++) {
      statuses.add(statusOf("/open/a?x=%zz&%=1"));
    }
    assertEquals(List.of("200", "200", "429"), statuses);
  }

  /** Sends a request that no client of Java writes. */
  private String statusOf(String target) throws IOException {
    try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), URI.create(application.url("/")).getPort())) {
      String request = "GET " + target + " HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 203.0.113.99\r\nConnection: close\r\n\r\n";
      socket.getOutputStream().write(request.getBytes(StandardCharsets.UTF_8));
      return new String(socket.getInputStream().readAllBytes(), StandardCharsets.UTF_8).split(" ", 3)[1];
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
