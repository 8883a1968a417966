package io.github.redisthrottle.spring.sliced;

import org.junit.jupiter.api.RepeatedTest;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.webflux.test.autoconfigure.WebFluxTest;
import org.springframework.test.web.reactive.server.WebTestClient;

/** In a slice of WebFlux of Boot 4 annotations and routes are at work, without Redis. */
@WebFluxTest(
    controllers = ReportPages.class,
    properties = {"redis-throttle.routes[0].paths=/routed", "redis-throttle.routes[0].limits=RATE 2/h"})
class ReactiveSliceOnBoot4Test {
  @Autowired WebTestClient web;

  @RepeatedTest(2)
  void aRequestTooManyIsDenied() {
    for (String path : new String[] {"/later", "/routed"}) {
      for (int i = 0; i < 3; i++) {
        web.get().uri(path).exchange().expectStatus().isEqualTo(i < 2 ? 200 : 429);
      }
    }
  }
}
