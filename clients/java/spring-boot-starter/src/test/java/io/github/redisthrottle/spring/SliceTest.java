package io.github.redisthrottle.spring;

import static org.junit.jupiter.api.Assumptions.assumeTrue;
import static org.springframework.test.web.servlet.request.MockMvcRequestBuilders.get;
import static org.springframework.test.web.servlet.result.MockMvcResultMatchers.status;

import org.junit.jupiter.api.RepeatedTest;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.test.autoconfigure.web.servlet.WebMvcTest;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Import;
import org.springframework.test.web.servlet.MockMvc;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;

/** In a slice of Spring MVC annotations and routes are at work, without Redis. */
@WebMvcTest(
    controllers = SliceTest.Pages.class,
    properties = {"redis-throttle.routes[0].paths=/routed", "redis-throttle.routes[0].limits=RATE 2/h"})
class SliceTest {
  @Autowired MockMvc mvc;

  /** The application. */
  @Configuration(proxyBeanMethods = false)
  @EnableAutoConfiguration
  @Import(Pages.class)
  static class Beans {}

  /** Controllers. */
  @RestController
  static class Pages {
    @GetMapping("/annotated")
    @RateLimit(key = "address", limits = "RATE 2/h")
    public String annotated() {
      return "served";
    }

    @GetMapping("/routed")
    public String routed() {
      return "served";
    }
  }

  @RepeatedTest(2)
  void aRequestTooManyIsDenied() throws Exception {
    assumeTrue(mvc != null, "Boot 4 has the annotation in another package");
    for (String path : new String[] {"/annotated", "/routed"}) {
      for (int i = 0; i < 3; i++) {
        mvc.perform(get(path)).andExpect(status().is(i < 2 ? 200 : 429));
      }
    }
  }
}
