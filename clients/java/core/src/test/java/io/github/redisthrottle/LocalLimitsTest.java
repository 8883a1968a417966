package io.github.redisthrottle;

import static io.github.redisthrottle.Limit.fixed;
import static io.github.redisthrottle.Limit.rate;
import static io.github.redisthrottle.Limit.window;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.github.redisthrottle.testing.Clients;
import io.github.redisthrottle.testing.Server;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** The policy LOCAL of a guard: one process's part of the limits. */
class LocalLimitsTest {
  private static final Duration HOUR = Duration.ofHours(1);
  private static final Limit TWENTY = rate(20, HOUR);

  private final FakeLimiter server = new FakeLimiter();

  private Guard guard() {
    return Guard.of(server, Guard.Policy.LOCAL, 1, Duration.ofMillis(30));
  }

  @TestFactory
  List<DynamicTest> aPartOfEachKindOfLimit() throws IOException {
    List<DynamicTest> tests = new ArrayList<>();
    for (JsonNode row : new ObjectMapper().readTree(Server.ROOT.resolve("spec/clients/shares.json").toFile()).get("cases")) {
      tests.add(
          DynamicTest.dynamicTest(
              row.toString(),
              () -> {
                Call call = Call.limit("k", Limits.parse(row.get("limits").asText()));
                String part =
                    LocalLimits.share(call, row.get("processes").asInt(), row.path("at_least_one").asBoolean()).map(own -> Limits.format(own.limits().get(0))).orElse(null);
                assertEquals(row.get("part").textValue(), part);
              }));
    }
    return tests;
  }

  @Test
  void callsAreDecidedByThePartOfThisProcess() {
    server.fail();
    Limiter own = Limiter.over(guard().processes(4));
    for (long cost : new long[] {6, 20, 21, 5}) {
      Result result = own.limit("k", cost, TWENTY);
      assertEquals(Result.By.LOCAL, result.by());
      assertEquals(cost != 5, result.limited());
      assertEquals(cost != 21, result.retryAfter().isPresent(), "cost " + cost);
    }
    assertTrue(own.limit("w", window(3, HOUR)).allowed(), "each process has one unit of a small limit");
    assertThrows(LimitedException.class, () -> own.waitFor("k", TWENTY));
    assertThrows(OutageException.class, () -> own.refund("k", 1, TWENTY));
    Limiter never = Limiter.over(guard().processes(4).neverMore());
    assertTrue(never.limit("w", window(3, HOUR)).retryAfter().isPresent(), "it is to be tried again");
    assertTrue(never.limit("w", 4, window(3, HOUR)).retryAfter().isEmpty());
  }

  @Test
  void allProcessesTogetherKeepTheLimits() {
    server.fail();
    Random random = new Random(7);
    for (int round = 0; round < 30; round++) {
      int processes = 1 + random.nextInt(5);
      int count = 1 + random.nextInt(30);
      Limit limit = List.of(rate(count, HOUR).burst(1 + random.nextInt(30)), window(count, HOUR), fixed(count, Duration.ofDays(10_000))).get(round % 3);
      List<Limiter> all = new ArrayList<>();
      for (int i = 0; i < processes; i++) {
        all.add(Limiter.over(guard().processes(processes).neverMore()));
      }
      long granted = 0;
      for (int i = 0; i < 200; i++) {
        granted += all.get(i % processes).limit("k", 1 + i % 2, limit).granted();
      }
      assertTrue(granted <= limit.capacity(), limit + " by " + processes + ": " + granted);
      assertTrue(limit.capacity() < 2L * processes || granted > limit.capacity() - 2L * processes, limit + " by " + processes + ": " + granted);
    }
  }

  @Test
  void soManyKeysAreRemembered() {
    server.fail();
    Limiter own = Limiter.over(guard().keys(2));
    List<Boolean> allowed = new ArrayList<>();
    for (String key : List.of("a", "b", "a", "c", "a", "b")) {
      allowed.add(own.limit(key, rate(1, HOUR)).allowed());
    }
    assertEquals(List.of(true, true, false, true, false, true), allowed);
  }

  @Test
  void whatAnOptionIsForIsChecked() {
    Guard open = Guard.of(server, Guard.Policy.OPEN);
    assertThrows(IllegalArgumentException.class, () -> open.processes(4));
    assertThrows(IllegalArgumentException.class, () -> guard().processes(0));
    assertThrows(IllegalArgumentException.class, () -> guard().keys(0));
  }

  @Test
  void aLeaseThatWasTakenHereOutlastsTheOutage() {
    server.fail();
    Limiter own = Limiter.over(guard());
    Slots slots = Slots.of(2, Duration.ofMinutes(1));
    Lease mine = own.lease("s", slots);
    Lease other = own.lease("s", slots);
    assertEquals(Result.By.LOCAL, mine.result().by());
    assertThrows(LimitedException.class, () -> own.lease("s", slots));
    server.heal();
    Server.await("the server decides again", () -> own.limit("k", TWENTY).by() == Result.By.SERVER);
    assertTrue(own.renew("s", mine.id(), Duration.ofMinutes(1)));
    mine.close();
    other.close();
    assertFalse(own.release("s", mine.id()), "it is over");
    server.fail();
    own.lease("s", slots);
    own.lease("s", slots);
  }

  @Test
  void aWaitIsChargedHereAlsoWhereALookTriesTheServerForIt() {
    server.fail();
    Limiter own = Limiter.over(guard());
    Limit many = window(100_000, HOUR);
    AtomicInteger waits = new AtomicInteger();
    Server.await(
        "a look tries the server",
        () -> {
          assertEquals(Result.By.LOCAL, own.waitFor("k", many).by());
          waits.incrementAndGet();
          return server.asked().stream().anyMatch(asked -> asked.call().verb() == Call.Verb.PEEK);
        });
    assertEquals(100_000 - waits.get(), own.peek("k", many).remaining());
  }

  @ParameterizedTest
  @EnumSource
  void limitsHoldInThisProcessUntilTheServerIsBack(Clients client) {
    try (Server redis = Server.start();
        Limiter limiter = Limiter.over(Guard.of(Remote.over(client.patient(redis.port)), Guard.Policy.LOCAL).processes(2))) {
      redis.kill();
      int allowed = 0;
      for (int i = 0; i < 30; i++) {
        Result result = limiter.limit("k", fixed(20, Duration.ofDays(10_000)));
        assertEquals(Result.By.LOCAL, result.by());
        allowed += result.allowed() ? 1 : 0;
      }
      assertEquals(10, allowed);
      redis.launch();
      Server.await("the server decides again", () -> limiter.limit("k", fixed(20, Duration.ofDays(10_000))).by() == Result.By.SERVER);
    }
  }
}
