package io.github.redisthrottle;

import static io.github.redisthrottle.Limit.fixed;
import static io.github.redisthrottle.Limit.rate;
import static io.github.redisthrottle.Limit.window;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redisthrottle.testing.Clients;
import io.github.redisthrottle.testing.Server;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.PriorityQueue;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.LongUnaryOperator;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Units by the batch: few calls to the server, and never more let through than it says. */
class BatchedTest {
  private static final Duration DAY = Duration.ofDays(1);
  private static final Duration YEAR = Duration.ofDays(365);
  private static final Duration MINUTE = Duration.ofMinutes(1);
  private static final Batched.Options LONG = Batched.Options.DEFAULT.maxAge(MINUTE);

  /** Notes what the next decider is asked. */
  private static final class Noting implements Decider {
    final List<Call> calls = new CopyOnWriteArrayList<>();
    final Decider next;

    Noting(Decider next) {
      this.next = next;
    }

    @Override
    public CompletionStage<Result> decide(Call call) {
      calls.add(call);
      return next.decide(call);
    }
  }

  @ParameterizedTest
  @EnumSource
  void aThousandCallsOnAHotKeyAreFewToTheServerAndWhatIsLeftComesBack(Clients client) {
    try (Server server = Server.start();
        Limiter behind = Limiter.over(client.patient(server.port))) {
      List<List<Limit>> kinds =
          List.of(
              List.of(rate(100_000, YEAR)),
              List.of(window(100_000, DAY)),
              List.of(fixed(100_000, YEAR)),
              List.of(fixed(100_000, YEAR), window(100_000, DAY)));
      for (List<Limit> limits : kinds) {
        String key = limits.toString();
        Noting asked = new Noting(behind);
        Batched batched = Batched.of(asked, LONG.onError(error -> new AssertionError(error).printStackTrace()));
        Map<Result.By, Integer> by = new TreeMap<>();
        for (int i = 0; i < 1000; i++) {
          Result result = Stages.await(() -> batched.decide(Call.limit(key, limits)));
          assertTrue(result.allowed());
          assertEquals(1, result.granted());
          assertEquals(100_000 - i - 1, result.remaining());
          by.merge(result.by(), 1, Integer::sum);
        }
        // 1, 2, 4, ... 64, and then 100 each.
        int sent = asked.calls.size();
        assertTrue(sent <= 16, sent + " calls");
        assertEquals(Map.of(Result.By.SERVER, sent, Result.By.BATCH, 1000 - sent), by);
        Limit[] all = limits.toArray(Limit[]::new);
        assertNotEquals(99_000, behind.peek(key, all).remaining());
        batched.close();
        assertEquals(99_000, behind.peek(key, all).remaining());
        assertEquals(Result.By.SERVER, Stages.await(() -> batched.decide(Call.limit(key, limits))).by(), "closed, it hands calls on");
      }
    }
  }

  @ParameterizedTest
  @EnumSource
  void unitsThatNobodyTakesComeBackAfterTheirAge(Clients client) {
    Limit limit = window(1000, DAY);
    try (Server server = Server.start();
        Limiter behind = Limiter.over(client.patient(server.port))) {
      Limiter limiter = Limiter.over(Batched.of(behind, Batched.Options.DEFAULT.maxAge(Duration.ofMillis(20))));
      for (int i = 0; i < 10; i++) {
        limiter.limit("left", limit);
      }
      Server.await("they are back", () -> behind.peek("left", limit).remaining() == 990);
    }
  }

  @ParameterizedTest
  @EnumSource
  void callsOfTheSameMomentShareOneAndTakeNoMoreThanThereIs(Clients client) {
    try (Server server = Server.start();
        Limiter behind = Limiter.over(client.patient(server.port))) {
      Noting asked = new Noting(behind);
      Batched batched = Batched.of(asked, LONG);
      List<CompletableFuture<Result>> calls = new ArrayList<>();
      for (int i = 0; i < 3000; i++) {
        calls.add(batched.decide(Call.limit("same", fixed(1000, YEAR))).toCompletableFuture());
      }
      assertEquals(1000, calls.stream().filter(call -> call.join().allowed()).count());
      assertTrue(asked.calls.size() < 100, asked.calls.size() + " calls");
    }
  }

  @ParameterizedTest
  @EnumSource
  void manyThreadsTakeNoMoreThanThereIs(Clients client) throws InterruptedException {
    try (Server server = Server.start();
        Limiter behind = Limiter.over(client.patient(server.port))) {
      Limiter limiter = Limiter.over(Batched.of(behind, Batched.Options.DEFAULT.maxAge(Duration.ofMillis(5))));
      java.util.concurrent.atomic.AtomicInteger allowed = new java.util.concurrent.atomic.AtomicInteger();
      List<Thread> threads = new ArrayList<>();
      for (int i = 0; i < 20; i++) {
        threads.add(
            new Thread(
                () -> {
                  for (int n = 0; n < 500; n++) {
                    allowed.addAndGet(limiter.limit("threads", fixed(5000, YEAR)).allowed() ? 1 : 0);
                  }
                }));
      }
      threads.forEach(Thread::start);
      for (Thread thread : threads) {
        thread.join();
      }
      assertTrue(allowed.get() <= 5000 && allowed.get() > 4000, allowed + " were let through");
    }
  }

  /** Under a clock that the test sets. */
  @Nested
  class InSimulatedTime {
    private final FakeLimiter server = new FakeLimiter();
    private final Noting asked = new Noting(server);
    private final PriorityQueue<Due> due = new PriorityQueue<>((a, b) -> Long.compare(a.at, b.at));
    private long now;

    private record Due(long at, Runnable act) {}

    private Limiter batched(Decider next, Batched.Options options) {
      return Limiter.over(new Batched(next, options, () -> now, (ns, act) -> due.add(new Due(now + ns, act))));
    }

    private void pass(long ms) {
      long until = now + ms * 1_000_000;
      while (!due.isEmpty() && due.peek().at <= until) {
        server.advance(Duration.ofNanos(Math.max(due.peek().at - now, 0)));
        now = Math.max(now, due.peek().at);
        due.remove().act.run();
      }
      server.advance(Duration.ofNanos(until - now));
      now = until;
    }

    @Test
    void whatIsNotBatchedGoesToTheServerAsItIs() {
      Limiter limiter = batched(asked, Batched.Options.DEFAULT.units(10).maxAge(MINUTE));
      Limit limit = rate(1000, DAY);
      for (int i = 0; i < 20; i++) {
        limiter.limit("k", limit);
      }
      Call plain = Call.limit("k", limit);
      List<Call> direct =
          List.of(
              plain.cost(0), plain.cost(11), plain.charge(Charge.UP_TO), plain.charge(Charge.STRICT), plain.maxWait(Duration.ofSeconds(1)), plain.each(),
              plain.ban(Duration.ofSeconds(1)), Call.limit("k", limit.take(1)), Call.limit("k", limit.shadow()), Call.limit("k", fixed(0, DAY)),
              Call.limitAll(Keys.of("k", limit)), Call.peek("k", limit), Call.refund("k", limit));
      for (Call call : direct) {
        int before = asked.calls.size();
        limiter.ask(call);
        assertEquals(List.of(call), asked.calls.subList(before, asked.calls.size()));
      }
    }

    @Test
    void aBatchIsNoLargerThanUnitsAndGrowsWhileItIsUsedUp() {
      Limiter limiter = batched(asked, Batched.Options.DEFAULT.units(10).maxAge(MINUTE));
      for (int i = 0; i < 35; i++) {
        limiter.limit("k", rate(1000, DAY));
      }
      assertEquals(List.of(1L, 2L, 4L, 8L, 10L, 10L), asked.calls.stream().map(Call::cost).toList());
    }

    @Test
    void denialsAreRememberedByTheNumberOfUnitsAndForgottenAfterARefund() {
      Limiter limiter = batched(asked, Batched.Options.DEFAULT);
      Limit limit = fixed(5, Duration.ofHours(1));
      assertTrue(limiter.limit("k", 5, limit).allowed());
      assertEquals(Result.By.SERVER, limiter.limit("k", limit).by());
      assertEquals(Result.By.CACHE, limiter.limit("k", limit).by());
      limiter.refund("k", 1, limit);
      pass(1);
      assertTrue(limiter.limit("k", limit).allowed());
    }

    @Test
    void aCallThatCostsMoreThanThereIsLearnsWhenItCanBeHad() {
      Limiter limiter = batched(asked, Batched.Options.DEFAULT);
      Limit limit = rate(10, Duration.ofSeconds(10));
      limiter.limit("k", 8, limit);
      assertEquals(Duration.ofSeconds(3), limiter.limit("k", 5, limit).retryAfter().orElseThrow());
    }

    @Test
    void aCallerThatLeavesLosesNoUnits() {
      Limiter limiter = batched(asked, LONG);
      Limit limit = fixed(2, Duration.ofHours(1));
      server.hang();
      CompletableFuture<Result> leaves = limiter.async().limit("k", limit).toCompletableFuture();
      CompletableFuture<Result> stays = limiter.async().limit("k", limit).toCompletableFuture();
      leaves.cancel(true);
      server.heal();
      assertTrue(stays.join().allowed());
      assertTrue(limiter.limit("k", limit).allowed());
    }

    @Test
    void errorsAreSharedAndNotRemembered() {
      CompletableFuture<Result> fails = new CompletableFuture<>();
      Noting failing = new Noting(call -> fails.isDone() ? server.decide(call) : fails);
      Limiter limiter = batched(failing, LONG);
      Limit limit = fixed(2, Duration.ofHours(1));
      List<CompletableFuture<Result>> all = new ArrayList<>();
      for (int i = 0; i < 5; i++) {
        all.add(limiter.async().limit("k", limit).toCompletableFuture());
      }
      fails.completeExceptionally(new OutageException("away", null));
      for (CompletableFuture<Result> one : all) {
        assertTrue(assertThrows(CompletionException.class, one::join).getCause() instanceof OutageException);
      }
      assertEquals(1, failing.calls.size());
      assertTrue(limiter.limit("k", limit).allowed());
    }

    @Test
    void aUnitThatReachedNobodyIsPutBack() {
      Limiter limiter = batched(asked, LONG);
      Limit limit = fixed(3, Duration.ofHours(1));
      limiter.limit("k", limit);
      limiter.limit("k", limit); // and holds one more
      limiter.limit("k", limit).lost();
      assertEquals(Result.By.BATCH, limiter.limit("k", limit).by());
      assertEquals(2, asked.calls.size());
    }

    @Test
    void unitsThatTheServerDoesNotKnowOfAreNotKept() {
      for (Guard.Policy policy : List.of(Guard.Policy.OPEN, Guard.Policy.LOCAL)) {
        Noting guarded = new Noting(Guard.of(server, policy, 1, Duration.ofNanos(1)));
        Limiter limiter = batched(guarded, Batched.Options.DEFAULT);
        server.fail();
        for (int i = 0; i < 5; i++) {
          Result result = limiter.limit("k", rate(10, Duration.ofHours(1)));
          assertEquals(policy == Guard.Policy.OPEN ? Result.By.POLICY : Result.By.LOCAL, result.by());
        }
        assertEquals(5, guarded.calls.size());
        assertEquals(List.of(Charge.UP_TO), guarded.calls.stream().map(Call::charge).filter(Objects::nonNull).toList());
        server.heal();
        pass(100);
        assertEquals(Result.By.SERVER, limiter.limit("k", rate(10, Duration.ofHours(1))).by());
      }
    }

    @Test
    void withProcessesEveryCallSparesWhatTheyHold() {
      Limiter limiter = batched(asked, Batched.Options.DEFAULT.units(10).processes(4));
      Limit hundred = rate(100, MINUTE);
      limiter.limit("a", hundred);
      limiter.peek("a", hundred.spare(5));
      limiter.limit("b", fixed(100, MINUTE));
      limiter.refund("a", 1, hundred);
      assertEquals(List.of(40L, 45L, 0L, 0L), asked.calls.stream().map(call -> call.limits().get(0).get(0).spare()).toList());
      Exception nothing = assertThrows(IllegalArgumentException.class, () -> limiter.limit("c", rate(40, MINUTE)));
      assertEquals("batched: RATE 40/1m: units x processes, 40, leave nothing of the limit", nothing.getMessage());
      Exception few = assertThrows(IllegalArgumentException.class, () -> limiter.limit("d", window(79, MINUTE)));
      assertTrue(few.getMessage().endsWith("leave only 39 of 79 units; take at most half, such as units of 9"), few.getMessage());
      assertTrue(limiter.limit("e", window(80, MINUTE)).allowed());
    }

    @Test
    void unitsAreNotHandedOutWhenTheyAreOldNorAfterTheEndOfTheirWindow() {
      Limiter young = batched(asked, Batched.Options.DEFAULT);
      Limit fifty = rate(50, Duration.ofHours(1));
      young.limit("young", fifty);
      young.limit("young", fifty); // the second batch is two units
      pass(100);
      assertEquals(Result.By.SERVER, young.limit("young", fifty).by());
      Limiter limiter = batched(asked, Batched.Options.DEFAULT.maxAge(Duration.ofHours(1)));
      Limit five = fixed(5, MINUTE);
      limiter.limit("k", five);
      limiter.limit("k", five);
      pass(60_000);
      List<Boolean> allowed = new ArrayList<>();
      for (int i = 0; i < 6; i++) {
        allowed.add(limiter.limit("k", five).allowed());
      }
      assertEquals(List.of(true, true, true, true, true, false), allowed);
    }

    @Test
    void unitsThatAreBeingReturnedCountAsHeldAndAReturnThatIsNotTakenIsTold() {
      List<Throwable> told = new ArrayList<>();
      Limiter limiter = batched(asked, Batched.Options.DEFAULT.units(2).onError(told::add));
      Limit limit = rate(1000, DAY);
      limiter.limit("k", limit);
      limiter.limit("k", limit); // and holds one more
      server.hang();
      pass(100); // which is being given back
      CompletableFuture<Result> waits = limiter.decide(Call.limit("k", limit).cost(2)).toCompletableFuture();
      assertEquals(3, asked.calls.size(), "two more would make three");
      pass(1000);
      assertEquals(1, told.size());
      assertEquals(4, asked.calls.size());
      server.heal();
      assertTrue(waits.join().allowed());
    }

    /** A random walk: several processes, callers that come in bursts, units that are returned. */
    @TestFactory
    List<DynamicTest> allProcessesTogetherKeepTheirBound() {
      return List.of(false, true).stream().map(said -> DynamicTest.dynamicTest(said ? "the limit" : "their bound", () -> walk(said))).toList();
    }

    private void walk(boolean said) {
      int processes = 4;
      int units = 8;
      long maxAge = 200;
      long period = 250;
      long count = 100;
      long burst = 80;
      Limit rated = rate(count, Duration.ofMillis(period)).burst(burst);
      LongUnaryOperator ofRate = ms -> burst + ms * count / period + 1;
      Map<List<Limit>, LongUnaryOperator> kinds =
          Map.of(
              List.of(rated), ofRate,
              List.of(window(count, Duration.ofMillis(period))), ms -> count * ((ms - 1) / period + 1),
              List.of(fixed(count, Duration.ofMillis(period)), rated), ofRate);
      Random random = new Random(1);
      kinds.forEach(
          (limits, most) -> {
            Batched.Options options = Batched.Options.DEFAULT.units(units).maxAge(Duration.ofMillis(maxAge)).processes(said ? processes : 0);
            List<Limiter> all = new ArrayList<>();
            for (int i = 0; i < processes; i++) {
              all.add(batched(server, options));
            }
            long began = now;
            List<long[]> out = new ArrayList<>();
            for (int step = 0; step < 1500; step++) {
              boolean eager = step / 100 % 3 == 0;
              for (Limiter limiter : all) {
                long cost = 1L + random.nextInt(3);
                if (random.nextDouble() < (eager ? 0.9 : 0.2) && limiter.ask(Call.limit(limits.toString(), limits).cost(cost)).allowed()) {
                  out.add(new long[] {(now - began) / 1_000_000, cost});
                }
              }
              pass(1 + random.nextInt(eager ? 2 : 12));
            }
            long ended = (now - began) / 1_000_000;
            assertTrue(within(out, 0, ended) > count * ended / period / 5, limits + ": a good part of the limit is used");
            for (long[] one : out) {
              for (long ms : new long[] {period / 5, period / 2, maxAge, period}) {
                long there = within(out, one[0], one[0] + ms);
                assertTrue(there <= most.applyAsLong(ms + maxAge + 1), limits + ": " + there + " in " + ms + " ms, by age");
                assertTrue(there <= most.applyAsLong(ms + 1) + (said ? 0 : processes * units), limits + ": " + there + " in " + ms + " ms, by units");
              }
            }
          });
    }

    private static long within(List<long[]> out, long from, long to) {
      return out.stream().filter(one -> one[0] >= from && one[0] < to).mapToLong(one -> one[1]).sum();
    }
  }
}
