package io.github.redisthrottle.spring.sliced;

import static org.springframework.test.web.servlet.request.MockMvcRequestBuilders.get;
import static org.springframework.test.web.servlet.result.MockMvcResultMatchers.status;

import org.junit.jupiter.api.RepeatedTest;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.webmvc.test.autoconfigure.WebMvcTest;
import org.springframework.test.web.servlet.MockMvc;

/** In a slice of Spring MVC of Boot 4 annotations and routes are at work, without Redis. */
@WebMvcTest(
    controllers = ReportPages.class,
    properties = {"redis-throttle.routes[0].paths=/routed", "redis-throttle.routes[0].limits=RATE 2/h"})
class SliceOnBoot4Test {
  @Autowired MockMvc mvc;

  @RepeatedTest(2)
  void aRequestTooManyIsDenied() throws Exception {
    for (String path : new String[] {"/report", "/routed"}) {
      for (int i = 0; i < 3; i++) {
        mvc.perform(get(path)).andExpect(status().is(i < 2 ? 200 : 429));
      }
    }
  }
}
