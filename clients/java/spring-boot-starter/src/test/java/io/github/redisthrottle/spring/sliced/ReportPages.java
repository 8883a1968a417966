package io.github.redisthrottle.spring.sliced;

import io.github.redisthrottle.spring.RateLimit;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;
import reactor.core.publisher.Mono;

/** Pages that an annotation limits, and one that a route of a test does. */
@RestController
class ReportPages {
  @GetMapping("/report")
  @RateLimit(key = "address", limits = "RATE 2/h")
  public String report() {
    return "served";
  }

  @GetMapping("/later")
  @RateLimit(key = "address", limits = "RATE 2/h", name = "later")
  public Mono<String> later() {
    return Mono.just("served");
  }

  @GetMapping("/routed")
  public String routed() {
    return "served";
  }
}
