package io.github.redisthrottle.spring.reactive;

import io.github.redisthrottle.LimitedException;
import io.github.redisthrottle.spring.UndecidedException;
import io.github.redisthrottle.spring.method.Decided;
import io.github.redisthrottle.spring.web.Problems;
import org.springframework.core.annotation.Order;
import org.springframework.http.ProblemDetail;
import org.springframework.http.ResponseEntity;
import org.springframework.web.bind.annotation.ExceptionHandler;
import org.springframework.web.bind.annotation.RestControllerAdvice;
import org.springframework.web.server.ServerWebExchange;

/** Responses of controllers whose call was denied by an annotation. A handler of the controller's own comes first. */
@Order(0)
@RestControllerAdvice
public final class ReactiveRateLimitAdvice {
  /**
   * Answers a call that was denied: status 429. What was denied elsewhere, such as by another service's limit, stays an
   * error.
   */
  @ExceptionHandler
  public ResponseEntity<ProblemDetail> limited(LimitedException error, ServerWebExchange exchange) {
    return Problems.response(error, exchange.getAttribute(Decided.ATTRIBUTE));
  }

  /** Answers a call that could not be decided: status 503. */
  @ExceptionHandler
  public ResponseEntity<ProblemDetail> undecided(UndecidedException error) {
    return Problems.response(error);
  }
}
