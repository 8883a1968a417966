package io.github.redisthrottle.spring.web;

import io.github.redisthrottle.LimitedException;
import io.github.redisthrottle.http.Problem;
import io.github.redisthrottle.spring.UndecidedException;
import io.github.redisthrottle.spring.method.Decided;
import java.net.URI;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.springframework.http.ProblemDetail;
import org.springframework.http.ResponseEntity;

/** The problem documents of requests that controllers do not serve. */
public final class Problems {
  private Problems() {}

  /**
   * Returns the response of a controller whose call was denied, or throws the error again if no annotation denied it.
   *
   * @param decided the last decision in the request; null without one
   */
  public static ResponseEntity<ProblemDetail> response(LimitedException error, @Nullable Decided decided) {
    if (decided == null || decided.result() != error.result()) {
      throw error;
    }
    Problem problem = Problem.ofInForce(decided.limits(), decided.result());
    ProblemDetail detail = ProblemDetail.forStatus(Problem.STATUS);
    detail.setType(URI.create(problem.type()));
    detail.setTitle(problem.title());
    problem.violated().ifPresent(name -> detail.setProperty("violated-policies", List.of(name)));
    return ResponseEntity.status(Problem.STATUS).body(detail); // the fields are there already
  }

  /** Returns the response of a controller whose call could not be decided. */
  public static ResponseEntity<ProblemDetail> response(UndecidedException error) {
    return ResponseEntity.status(503).header("Retry-After", String.valueOf(error.retryAfterSeconds())).body(ProblemDetail.forStatus(503));
  }
}
