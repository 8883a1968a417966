package io.github.redisthrottle;

import static io.github.redisthrottle.Limit.fixed;
import static io.github.redisthrottle.Limit.rate;
import static io.github.redisthrottle.Limit.window;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redisthrottle.testing.Server;
import io.github.redisthrottle.testing.ThrottleExtension;
import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;

@ExtendWith(ThrottleExtension.class)
class FakeLimiterTest {
  private static final Limit PER_HOUR = rate(2, Duration.ofHours(1));

  private final FakeLimiter fake = new FakeLimiter();
  private final Limiter limiter = fake.limiter();

  @Test
  void aTestHasOneOfItsOwn(FakeLimiter given, Limiter verbs) {
    assertSame(given.limiter(), verbs);
    verbs.limit("k", PER_HOUR);
    assertEquals(1, given.asked().size());
  }

  @Test
  void itsClockStandsStill() {
    assertEquals(Instant.parse("2000-01-01T00:00:00Z"), fake.now());
    Limit month = fixed(1, 1, ChronoUnit.MONTHS).zone("Europe/Berlin");
    fake.setTime(Instant.parse("2026-01-31T22:59:59Z"));
    assertTrue(limiter.limit("k", month).allowed());
    assertEquals(Duration.ofSeconds(1), limiter.limit("k", month).retryAfter().orElseThrow());
    fake.advance(Duration.ofSeconds(1));
    assertTrue(limiter.limit("k", month).allowed(), "midnight in Berlin");
    assertThrows(IllegalArgumentException.class, () -> fake.setTime(Instant.parse("1969-12-31T23:59:59Z")));
    assertThrows(IllegalArgumentException.class, () -> fake.advance(Duration.ofSeconds(-1)));
  }

  @Test
  void itTellsWhatItWasAsked() {
    limiter.limit("user:42", 2, PER_HOUR);
    FakeLimiter.Asked asked = fake.asked().get(0);
    assertEquals("CL.LIMIT user:42 RATE 2/1h COST 2 COMPACT", asked.toString());
    assertEquals(0, asked.result().orElseThrow().remaining());
    assertEquals(fake.now(), asked.at());
  }

  @Test
  void itFailsAsItIsTold() {
    fake.fail();
    assertThrows(OutageException.class, () -> limiter.limit("k", PER_HOUR));
    fake.fail(new OverloadException("full", null));
    assertThrows(OverloadException.class, () -> limiter.limit("k", PER_HOUR));
    assertTrue(fake.asked().get(1).error().orElseThrow() instanceof OverloadException);
    fake.heal();
    fake.next(1).fail();
    assertThrows(OutageException.class, () -> limiter.limit("k", PER_HOUR));
    assertEquals(1, limiter.limit("k", PER_HOUR).remaining(), "nothing was charged");
    fake.next(1).loseReplies();
    assertThrows(OutageException.class, () -> limiter.limit("k", PER_HOUR));
    assertTrue(limiter.limit("k", PER_HOUR).limited(), "it was charged all the same");
  }

  @Test
  void aCallThatTheServerRefusesIsAMistake() {
    assertThrows(MistakeException.class, () -> limiter.limitAll(Keys.of("a", PER_HOUR).and("a", PER_HOUR)));
    assertThrows(IllegalArgumentException.class, () -> limiter.limit("k", -1, PER_HOUR));
  }

  @Test
  void itHangsUntilItIsHealedAndDecidesThenAlsoForCallersThatHaveLeft() {
    fake.hang();
    CompletableFuture<Result> stays = limiter.async().limit("k", PER_HOUR).toCompletableFuture();
    CompletableFuture<Result> leaves = limiter.async().limit("k", PER_HOUR).toCompletableFuture();
    assertEquals(2, fake.blocked());
    leaves.cancel(true);
    assertFalse(stays.isDone());
    fake.heal();
    assertEquals(1, stays.join().remaining());
    assertEquals(0, limiter.peek("k", PER_HOUR).remaining());
  }

  @Test
  void callersThatWaitAreLetInInOrderAsTimePasses() {
    Limit mail = window(1, Duration.ofMinutes(1));
    limiter.waitFor("mail", mail);
    List<String> came = new ArrayList<>();
    for (String name : List.of("second", "third", "first")) {
      Call call = Call.waitFor("mail", mail).priority(name.equals("first") ? 1 : 0);
      limiter.decide(call).thenAccept(result -> came.add(name + " " + result.waited().toSeconds()));
    }
    CompletableFuture<Result> late = limiter.decide(Call.waitFor("mail", mail).maxWait(Duration.ofSeconds(90))).toCompletableFuture();
    assertEquals(4, fake.blocked());
    fake.advance(Duration.ofMinutes(3));
    assertEquals(List.of("first 60", "second 120", "third 180"), came);
    assertTrue(late.join().limited());
    assertEquals(0, fake.blocked());
  }

  @Test
  void ratesAreReservedForCallersThatWaitAndReturnedWhenTheyLeave() {
    Limit second = rate(1, Duration.ofSeconds(1));
    limiter.waitFor("k", second);
    CompletableFuture<Result.Allowed> leaves = limiter.async().waitFor("k", second).toCompletableFuture();
    CompletableFuture<Result.Allowed> next = limiter.async().waitFor("k", second).toCompletableFuture();
    leaves.cancel(true);
    fake.advance(Duration.ofSeconds(2));
    assertEquals(Duration.ofSeconds(2), next.join().waited());
    assertThrows(LimitedException.class, () -> limiter.ask(Call.waitFor("k", second).cost(2)).orThrow());
  }

  @Test
  void anOutageAlsoEndsCallsInLine() {
    Slots one = Slots.of(1, Duration.ofHours(1));
    limiter.lease("jobs", one);
    CompletableFuture<Lease> waits = limiter.async().lease(Call.lease("jobs", one).maxWait(Duration.ofMinutes(1))).toCompletableFuture();
    fake.fail();
    assertTrue(assertThrows(CompletionException.class, waits::join).getCause() instanceof OutageException);
  }

  @Test
  void leasesAndAdmissionsAreGranted() {
    Slots one = Slots.of(1, Duration.ofHours(1));
    Lease first = limiter.lease("jobs", one);
    assertThrows(LimitedException.class, () -> limiter.lease("jobs", one));
    CompletableFuture<Lease> second = limiter.async().lease(Call.lease("jobs", one).maxWait(Duration.ofDays(1))).toCompletableFuture();
    first.release();
    second.join().release();
    Lease lost = limiter.lease("jobs", Slots.of(1, Duration.ofMillis(300)));
    fake.advance(Duration.ofSeconds(1));
    Server.await("it is lost", lost::isLost);
    assertThrows(LeaseLostException.class, lost::close);
    Admission admission = limiter.admit(Keys.of("tokens", rate(100, Duration.ofHours(1)).take(10)).and("running", Slots.of(1, Duration.ofMinutes(1))));
    admission.used("tokens", 3);
    admission.close();
    assertEquals(97, limiter.peek("tokens", rate(100, Duration.ofHours(1))).remaining());
  }

  @Test
  void aLookChangesNothingWhateverLimitItNames() {
    Limit large = rate(10, Duration.ofHours(1)).burst(20);
    limiter.limit("k", 20, large);
    assertEquals(0, limiter.peek("k", rate(10, Duration.ofHours(1))).remaining());
    assertEquals(0, limiter.peek("k", large).remaining());
  }

  @Test
  void aCallerWaitsUntilARetryMakesSense() {
    Limit soon = rate(1, Duration.ofMillis(50));
    limiter.limit("k", soon);
    Result denied = limiter.limit("k", soon);
    long began = System.nanoTime();
    denied.untilRetry();
    assertTrue(System.nanoTime() - began >= 50_000_000);
    limiter.limit("other", soon).untilRetry();
    Result never = limiter.limit("k", 2, soon);
    assertThrows(LimitedException.class, never::untilRetry);
    limiter.limit("h", PER_HOUR);
    Result hours = limiter.limit("h", 2, PER_HOUR);
    CompletableFuture<Void> waits = hours.untilRetryAsync().toCompletableFuture();
    assertFalse(waits.isDone());
    Thread.currentThread().interrupt();
    assertThrows(CallInterruptedException.class, hours::untilRetry);
    assertTrue(Thread.interrupted());
  }

  @Test
  void aKeyIsOfOneKind() {
    Call lease = Call.lease("k", Slots.of(1, Duration.ofMinutes(1)));
    limiter.decide(lease.id("a"));
    assertThrows(MistakeException.class, () -> limiter.limit("k", PER_HOUR));
    CompletableFuture<Result> line = fake.decide(lease.id("b").maxWait(Duration.ofHours(1))).toCompletableFuture();
    CompletableFuture<Result> wrong = fake.decide(Call.waitFor("k", fixed(1, Duration.ofSeconds(1)))).toCompletableFuture();
    fake.advance(Duration.ofMinutes(1));
    assertTrue(line.join().allowed());
    assertInstanceOf(MistakeException.class, assertThrows(CompletionException.class, wrong::join).getCause());
  }
}
