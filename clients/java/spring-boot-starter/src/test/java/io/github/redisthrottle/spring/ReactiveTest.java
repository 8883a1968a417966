package io.github.redisthrottle.spring;

import java.security.Principal;
import org.springframework.boot.WebApplicationType;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.annotation.Order;
import org.springframework.web.server.WebFilter;
import reactor.core.publisher.Mono;

class ReactiveTest extends WebTest {
  ReactiveTest() {
    super(WebApplicationType.REACTIVE, SignIn.class);
  }

  /** Stands where Spring Security does. */
  @Configuration(proxyBeanMethods = false)
  static class SignIn {
    @Bean
    @Order(-100)
    WebFilter signIn() {
      return (exchange, chain) -> {
        String user = exchange.getRequest().getHeaders().getFirst("X-User");
        return chain.filter(user == null ? exchange : exchange.mutate().principal(Mono.<Principal>just(() -> user)).build());
      };
    }
  }
}
