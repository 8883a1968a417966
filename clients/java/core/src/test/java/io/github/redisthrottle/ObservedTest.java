package io.github.redisthrottle;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;

class ObservedTest {
  @Test
  void anObserverIsToldHowEachCallWent() {
    State.Draft banned = State.of("k");
    banned.limited = banned.banned = true;
    State.Draft limited = State.of("k");
    limited.limited = true;
    Iterator<CompletableFuture<Result>> answers =
        List.of(
                CompletableFuture.completedFuture(State.of("k").done()),
                CompletableFuture.completedFuture(limited.done()),
                CompletableFuture.completedFuture(banned.done()),
                CompletableFuture.<Result>failedFuture(new OutageException("away", null)))
            .iterator();
    List<String> told = new ArrayList<>();
    Limiter limiter = Limiter.over(Observed.of(call -> answers.next(), (call, result, error, ns) -> told.add(Observed.outcome(result, error))));
    Limit limit = Limit.rate(1, Duration.ofSeconds(1));
    for (int i = 0; i < 3; i++) {
      limiter.limit("k", limit);
    }
    assertThrows(OutageException.class, () -> limiter.limit("k", limit));
    assertEquals(List.of("allowed", "limited", "banned", "outage"), told);
    limiter.close();
  }
}
