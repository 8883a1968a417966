package io.github.redisthrottle.spring.servlet;

import io.github.redisthrottle.LimitedException;
import io.github.redisthrottle.spring.UndecidedException;
import io.github.redisthrottle.spring.method.Decided;
import io.github.redisthrottle.spring.web.Problems;
import jakarta.servlet.http.HttpServletRequest;
import org.springframework.core.annotation.Order;
import org.springframework.http.ProblemDetail;
import org.springframework.http.ResponseEntity;
import org.springframework.web.bind.annotation.ExceptionHandler;
import org.springframework.web.bind.annotation.RestControllerAdvice;

/** Responses of controllers whose call was denied by an annotation. A handler of the controller's own comes first. */
@Order(0)
@RestControllerAdvice
public final class RateLimitAdvice {
  /**
   * Answers a call that was denied: status 429. What was denied elsewhere, such as by another service's limit, stays an
   * error.
   */
  @ExceptionHandler
  public ResponseEntity<ProblemDetail> limited(LimitedException error, HttpServletRequest request) {
    return Problems.response(error, request.getAttribute(Decided.ATTRIBUTE) instanceof Decided decided ? decided : null);
  }

  /** Answers a call that could not be decided: status 503. */
  @ExceptionHandler
  public ResponseEntity<ProblemDetail> undecided(UndecidedException error) {
    return Problems.response(error);
  }
}
