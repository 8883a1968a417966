package io.github.redisthrottle;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;

/** A cache of denials under a clock that the test sets, before a decider that counts what it is asked. */
class CachedTest {
  private static final Limit LIMIT = Limit.rate(1, Duration.ofSeconds(5));

  private final AtomicLong now = new AtomicLong();
  private int asked;
  private long retryAfterMs = 5000;
  private final Cached cached =
      Cached.of(
          call -> {
            asked++;
            State.Draft draft = State.of(call.key());
            draft.limited = call.verb() == Call.Verb.LIMIT;
            draft.retryAfterMs = draft.limited ? retryAfterMs : 0;
            draft.nextAfterMs = 2000;
            draft.granted = draft.limited ? 0 : -1;
            return CompletableFuture.completedFuture(draft.done());
          },
          2,
          Duration.ofSeconds(10),
          now::get);

  private Result ask(String key) {
    return Stages.await(() -> cached.decide(Call.limit(key, LIMIT)));
  }

  private void pass(long ms) {
    now.addAndGet(ms * 1_000_000);
  }

  @Test
  void aDenialIsAnsweredHereUntilItsRetryAfterIsOver() {
    assertEquals(Result.By.SERVER, ask("a").by());
    pass(3000);
    Result again = ask("a");
    assertEquals(Result.By.CACHE, again.by());
    assertEquals(Duration.ofSeconds(2), again.retryAfter().orElseThrow());
    assertEquals(Duration.ofSeconds(2), again.nextAfter());
    assertEquals(1, asked);
    pass(2000);
    assertEquals(Result.By.SERVER, ask("a").by());
  }

  @Test
  void noDenialIsOlderThanTheLongestAge() {
    retryAfterMs = 3600 * 1000;
    ask("a");
    pass(9999);
    assertEquals(Result.By.CACHE, ask("a").by());
    pass(1);
    assertEquals(Result.By.SERVER, ask("a").by());
  }

  @Test
  void aDenialThatNoWaitingEndsIsNotRemembered() {
    retryAfterMs = -1;
    ask("a");
    ask("a");
    assertEquals(2, asked);
  }

  @Test
  void otherCallsAndOtherOptionsGoToTheServer() {
    ask("a");
    Stages.await(() -> cached.decide(Call.limit("a", LIMIT).cost(2)));
    Stages.await(() -> cached.decide(Call.limit("a", LIMIT).charge(Charge.STRICT)));
    Stages.await(() -> cached.decide(Call.limit("a", LIMIT).ban(Duration.ofHours(1))));
    assertEquals(4, asked);
  }

  @Test
  void aRefundForgetsItsKey() {
    ask("a");
    ask("b");
    Stages.await(() -> cached.decide(Call.refund("a", LIMIT)));
    pass(1);
    assertEquals(Result.By.SERVER, ask("a").by());
    assertEquals(Result.By.CACHE, ask("b").by());
  }

  @Test
  void thoseUsedLeastRecentlyAreForgotten() {
    ask("a");
    ask("b");
    ask("a");
    ask("c");
    assertEquals(Result.By.CACHE, ask("a").by());
    assertTrue(ask("b").by() == Result.By.SERVER);
  }
}
