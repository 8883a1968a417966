package io.github.redisthrottle;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redisthrottle.http.HeaderFields;
import io.github.redisthrottle.http.Problem;
import io.github.redisthrottle.micrometer.Metered;
import io.github.redisthrottle.testing.Server;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;

/** The layer before other layers, and when it reads. */
class PoliciesTest {
  private static final Limit[] API = Limits.policy("api", Limit.rate(100, Duration.ofMinutes(1)));
  private static final Policies.Options QUIET = Policies.Options.DEFAULT.log((level, line) -> {});

  private final Map<String, String> hash = new ConcurrentHashMap<>();
  private final AtomicLong now = new AtomicLong();
  private final FakeLimiter fake = new FakeLimiter();
  private final HashOfTest redis = new HashOfTest(() -> hash);

  private Policies made;

  private Policies unread(Decider next) {
    made = Policies.of(next, redis, QUIET, now::get);
    return made;
  }

  /** Returns a layer that has read the hash, which takes longer than its patience on a machine that is busy. */
  private Policies before(Decider next) {
    unread(next).begin();
    Server.await("the hash is read", () -> !made.isReading());
    return made;
  }

  /** Has the next call begin a reading, and waits until it is over. */
  private void refresh(Limiter limiter) {
    Server.await("no reading is under way", () -> !made.isReading());
    now.addAndGet(2_000_000_000);
    int asked = redis.asked.size();
    limiter.peek("another", API);
    Server.await("the hash is read again", () -> !made.isReading() && redis.asked.size() > asked);
  }

  @Test
  void whatLooksAtLimitsSeesThoseInForce() {
    hash.put("api", "FIXED 2/d RATE 1/m SHADOW NAME trial");
    SimpleMeterRegistry registry = new SimpleMeterRegistry();
    try (Limiter limiter = Limiter.over(Metered.of(before(fake), registry))) {
      Result first = limiter.ask(Call.limit("user:1", API).each());
      Result result = limiter.limit("user:1", API);
      Call call = Call.limit("user:1", API);
      assertEquals(2, result.limit());
      assertEquals("\"api-1\";q=2;w=86400", HeaderFields.of(call.limits(), first).get("RateLimit-Policy"));
      assertEquals("\"api-1\";r=1;t=86400", HeaderFields.of(call.limits(), first).get("RateLimit"));
      assertEquals(List.of(new Result.Applied("api", "api", result.inForce(call.limits()).get(0))), result.policies().stream().map(Optional::orElseThrow).toList());
      Result denied = limiter.limit("user:1", API);
      assertEquals(Optional.of("api-1"), Problem.of(call.limits(), denied).violated());
    }
    assertEquals(1, registry.get("ratelimit.decisions").tags("policy", "api-1", "outcome", "limited", "by", "server").counter().count());
    assertEquals(2, registry.get("ratelimit.shadowed").tags("policy", "trial").counter().count());
  }

  @Test
  void aPolicyThatIsNoneHasNoFieldsAndIsCountedAsNone() {
    hash.put("api", "NONE");
    SimpleMeterRegistry registry = new SimpleMeterRegistry();
    try (Limiter limiter = Limiter.over(Metered.of(before(fake), registry))) {
      Result result = limiter.limit("user:1", API);
      assertEquals(Map.of(), HeaderFields.of(Call.limit("user:1", API).limits(), result));
    }
    assertEquals(1, registry.get("ratelimit.decisions").tags("policy", "", "by", "none").counter().count());
    assertEquals(List.of(), fake.asked());
  }

  @Test
  void ofKeysInOrderOneThatPassesComesAfterThoseBeforeIt() {
    hash.put("free", "NONE");
    Limit[] one = {Limit.fixed(1, Duration.ofDays(1))};
    Keys keys = Keys.of("a", one).and("b", Limits.policy("free", one)).and("c", one);
    try (Limiter limiter = Limiter.over(before(fake))) {
      assertEquals("a", limiter.limitAny(keys).key());
      Result second = limiter.limitAny(keys);
      assertEquals("b", second.key());
      assertEquals(Result.By.NONE, second.by());
      assertEquals(1, second.keyIndex());
    }
  }

  @Test
  void aBanIsLeftOutWhereNoServerTakesOne() {
    hash.put("api", "RATE 1/m BAN 15m AFTER 3/h");
    List<Call> passed = new ArrayList<>();
    try (Limiter limiter =
        Limiter.over(
            before(
                call -> {
                  passed.add(call);
                  return fake.decide(call);
                }))) {
      limiter.limit("k", API);
      limiter.ask(Call.limit("k", API).maxWait(Duration.ofMinutes(5)));
      limiter.limitAny(Keys.of("k", API));
      limiter.peek("k", API);
      limiter.admit(Keys.of("another", API).and("running", Slots.of(9, Duration.ofMinutes(1)))).close();
    }
    assertEquals(Duration.ofMinutes(15), passed.get(0).ban());
    assertEquals("3/1h", passed.get(0).banAfter());
    passed.subList(1, 5).forEach(call -> assertNull(call.ban(), call::toString));
  }

  @Test
  void aReadingThatThrowsIsNotTheLast() {
    AtomicInteger readings = new AtomicInteger();
    List<String> lines = new CopyOnWriteArrayList<>();
    Policies.Source source =
        () -> {
          if (readings.incrementAndGet() == 2) {
            throw new NoClassDefFoundError("an Error, as executors of connections throw what is none of their stage's");
          }
          return Map.of("api", "RATE " + readings + "/m");
        };
    try (Policies policies = Policies.of(fake, source, Policies.Options.DEFAULT.log((level, line) -> lines.add(line)), now::get, Duration.ofSeconds(30))) {
      for (int i = 1; i <= 3; i++) {
        now.addAndGet(2_000_000_000);
        policies.decide(Call.limit("k", API)).toCompletableFuture().join();
        int read = i;
        Server.await("reading " + i + " is over", () -> !policies.isReading() && readings.get() == read);
      }
      assertEquals(Map.of("api", "RATE 3/m"), policies.inForce());
    }
    assertTrue(lines.get(1).startsWith("throttle:policies could not be read, what was read last counts"), lines::toString);
  }

  @Test
  void aReadingThatNeverEndsIsNotTheLast() {
    AtomicInteger readings = new AtomicInteger();
    List<String> lines = new CopyOnWriteArrayList<>();
    Policies.Source source =
        () -> {
          if (readings.incrementAndGet() == 2) {
            new CountDownLatch(1).await(); // nobody counts
          }
          return Map.of("api", "RATE " + readings + "/m");
        };
    Policies.Options options = Policies.Options.DEFAULT.log((level, line) -> lines.add(line));
    try (Policies policies = Policies.of(fake, source, options, now::get, Duration.ofMillis(500))) {
      Server.await("the first is over", () -> readAnew(policies, "RATE 1/m"));
      Server.await("another one comes after the second", () -> readAnew(policies, "RATE 3/m"));
      List<String> failed = lines.stream().filter(line -> line.contains("could not be read")).toList();
      assertEquals(List.of("throttle:policies could not be read, what was read last counts: there is no answer within 500 ms"), failed);
    }
  }

  /** Has the hash read, without a call. */
  private boolean readAnew(Policies policies, String value) {
    now.addAndGet(2_000_000_000);
    return value.equals(policies.inForceNow().toCompletableFuture().join().get("api"));
  }

  @Test
  void whatIsSaidIsOneLine() {
    List<String> lines = new CopyOnWriteArrayList<>();
    hash.put("api/a\nb\u001b[2J", "RATE\n5/x");
    try (Policies policies = Policies.of(fake, () -> hash, Policies.Options.DEFAULT.log((level, line) -> lines.add(line)))) {
      policies.decide(Call.limit("k", API)).toCompletableFuture().join();
      Server.await("the hash is read", () -> !lines.isEmpty());
    }
    assertTrue(lines.get(0).startsWith("policy api/a\\u000ab\\u001b[2J: \"RATE\\u000a5/x\" cannot be read"), lines::toString);
  }

  @Test
  void anAdmissionSettlesTheLimitsThatWereCharged() {
    Map<String, List<String>> settled = new HashMap<>();
    settled.put("RATE 9000/m", List.of("RATE 9000/1m TAKE 200 USED 700"));
    settled.put("RATE 9000/m FIXED 100/d SHADOW", List.of("RATE 9000/1m TAKE 200 USED 700", "FIXED 100/1d TAKE 0 USED 0 SHADOW"));
    settled.put("NONE", List.of());
    settled.put("RATE 9000/m RATE 800/s", List.of("RATE 9000/1m TAKE 200 USED 700", "RATE 800/1s TAKE 200 USED 700"));
    List<Call> passed = new CopyOnWriteArrayList<>();
    settled.forEach(
        (value, limits) -> {
          hash.put("llm", value);
          passed.clear();
          try (Limiter limiter =
              Limiter.over(
                  before(
                      call -> {
                        passed.add(call);
                        return fake.decide(call);
                      }))) {
            Limit[] tokens = Limits.policy("llm", Limit.rate(1000, Duration.ofMinutes(1)).take(200));
            Admission admission = limiter.admit(Keys.of("tokens " + value, tokens).and("running", Slots.of(9, Duration.ofMinutes(1))));
            hash.put("llm", "WINDOW 7/m");
            refresh(limiter);
            admission.used("tokens " + value, 700);
            assertTrue(admission.settle(), value);
          }
          Call last = passed.get(passed.size() - 1);
          assertEquals(Call.Verb.SETTLE, last.verb(), value);
          assertEquals(limits, last.limits().stream().flatMap(List::stream).map(Limit::toString).toList(), value);
        });
  }

  @Test
  void aCacheAndBatchesGoByTheLimitsInForce() {
    hash.put("api", "FIXED 1/d");
    try (Limiter limiter = Limiter.over(before(Cached.of(Batched.of(fake, Batched.Options.DEFAULT))))) {
      limiter.limit("k", API);
      assertTrue(limiter.limit("k", API).limited());
      assertEquals(Result.By.CACHE, limiter.limit("k", API).by());
      hash.put("api", "FIXED 3/d");
      refresh(limiter);
      assertEquals(3, limiter.limit("k", API).limit());
    }
  }

  @Test
  void anOutageIsDecidedByTheLimitsInForce() {
    hash.put("api", "FIXED 1/d");
    fake.fail();
    try (Limiter limiter = Limiter.over(before(Guard.of(fake, Guard.Policy.LOCAL)))) {
      assertEquals(Result.By.LOCAL, limiter.limit("k", API).by());
      assertTrue(limiter.limit("k", API).limited());
    }
  }

  @Test
  void theDefaultCountsWithoutAnotherCall() {
    hash.put("other", "RATE 1/m");
    List<Call> passed = new ArrayList<>();
    try (Policies policies =
        before(
            call -> {
              passed.add(call);
              return fake.decide(call);
            })) {
      Call call = Call.limit("k", API);
      Result result = policies.decide(call).toCompletableFuture().join();
      assertSame(call, passed.get(0));
      assertEquals(List.of(), result.policies());
    }
  }

  @Test
  void theHashIsReadByCallsWithAPolicyAndAtMostOnceInItsTime() {
    try (Limiter limiter = Limiter.over(unread(fake))) {
      limiter.limit("k", Limit.rate(1, Duration.ofSeconds(1)));
      assertEquals(List.of(), redis.asked);
      for (int i = 0; i < 10; i++) {
        limiter.limit("k", API);
      }
      Server.await("the hash is read", () -> !made.isReading());
      assertEquals(List.of("HGETALL throttle:policies"), redis.asked);
      now.addAndGet(899_000_000); // the shortest time, with its jitter, is 900 ms
      limiter.limit("k", API);
      assertEquals(1, redis.asked.size());
      refresh(limiter);
      assertEquals(2, redis.asked.size());
    }
  }

  @Test
  void aVersionIsAskedForAloneUntilAMinuteHasPassed() {
    hash.put("@version", "1");
    try (Limiter limiter = Limiter.over(before(fake))) {
      limiter.limit("k", API);
      refresh(limiter);
      assertEquals("HGET throttle:policies @version", redis.asked.get(1));
      now.addAndGet(60_000_000_000L);
      refresh(limiter);
      assertEquals("HGETALL throttle:policies", redis.asked.get(2));
    }
  }

  @Test
  void aFirstReadingThatTakesTooLongIsNotWaitedFor() throws InterruptedException {
    CountDownLatch ends = new CountDownLatch(1);
    AtomicInteger readings = new AtomicInteger();
    Policies.Source slow =
        () -> {
          readings.incrementAndGet();
          ends.await();
          return Map.of("api", "FIXED 1/d");
        };
    try (Policies policies = Policies.of(fake, slow, QUIET.refresh(Duration.ofMillis(1)));
        Limiter limiter = Limiter.over(policies)) {
      for (int i = 0; i < 5; i++) { // that the second one ends at all says that it did not wait
        assertEquals(100, limiter.limit("k", API).limit());
      }
      assertEquals(1, readings.get(), "readings at the same time");
      ends.countDown();
      Server.await("the reading goes on", () -> limiter.limit("k", API).limit() == 1);
      assertEquals(Map.of("api", "FIXED 1/d"), policies.inForce());
    }
  }

  @Test
  void aCallerThatLeavesDuringTheFirstReadingTakesNothing() {
    CountDownLatch ends = new CountDownLatch(1);
    Policies.Source slow =
        () -> {
          ends.await();
          return Map.of();
        };
    try (Limiter limiter = Limiter.over(Policies.of(fake, slow, QUIET))) {
      CompletableFuture<Result> leaves = limiter.async().limit("k", API).toCompletableFuture();
      leaves.cancel(true);
      ends.countDown();
      limiter.limit("k", API);
      assertEquals(1, fake.asked().size());
    }
  }

  @Test
  void whatIsNotReadInTimeIsLoggedOnce() {
    List<String> lines = new CopyOnWriteArrayList<>();
    AtomicInteger readings = new AtomicInteger();
    Policies.Source broken =
        () -> {
          readings.incrementAndGet();
          throw new IllegalStateException("the file is gone");
        };
    try (Limiter limiter = Limiter.over(Policies.of(fake, broken, QUIET.refresh(Duration.ofNanos(1)).log((level, line) -> lines.add(level + " " + line))))) {
      Server.await("it is tried again", () -> limiter.limit("k", API).allowed() && readings.get() > 2);
    }
    assertEquals(List.of("WARNING throttle:policies could not be read, the defaults of the code count: the file is gone"), lines);
  }

  @Test
  void ofManyChangesTwentyAreLogged() {
    List<String> lines = new ArrayList<>();
    PolicyTable table = new PolicyTable("h", (level, line) -> lines.add(line));
    table.read(Map.of());
    Map<String, String> many = new HashMap<>();
    for (int i = 0; i < 30; i++) {
      many.put("api/" + (100 + i), "RATE 1/s");
    }
    table.read(many);
    assertEquals(21, lines.size());
    assertEquals("policy api/119 is \"RATE 1/s\" now, it was not set", lines.get(19));
    assertEquals("h: 10 more changes", lines.get(20));
  }

  @Test
  void theFakeTakesPolicies() {
    Limiter limiter = fake.limiter();
    fake.policy("api", "FIXED 1/d");
    limiter.limit("k", API);
    assertTrue(limiter.limit("k", API).limited());
    fake.policy("api/k", "NONE");
    assertEquals(Result.By.NONE, limiter.limit("k", API).by());
    fake.policy("api/k", null);
    assertTrue(limiter.limit("k", API).limited());
    assertThrows(IllegalArgumentException.class, () -> fake.policy("api", "RTE 1/d"));
    fake.reset();
    assertFalse(limiter.limit("k", API).limited());
  }

  @Test
  void limitsOfAKeyHaveOnePolicy() {
    Limit[] mixed = {API[0], Limit.rate(1, Duration.ofSeconds(1))};
    assertThrows(IllegalArgumentException.class, () -> Call.limit("k", mixed));
    assertEquals("api", API[0].policyName());
    assertEquals(Limit.rate(100, Duration.ofMinutes(1)), API[0]);
  }

  /** A lookup of a table of 10,000, beside its answer by trying all prefixes. */
  @Test
  void theLongestPrefixOfTenThousandCounts() {
    Map<String, String> many = new HashMap<>();
    for (int i = 0; i < 10_000; i++) {
      many.put("api/" + Integer.toString(i, 3) + "*", "RATE " + (i + 1) + "/m");
    }
    PolicyTable table = new PolicyTable("h", (level, line) -> {});
    table.read(many);
    for (int i = 0; i < 30_000; i += 7) {
      String key = Integer.toString(i, 3) + ":x";
      String longest = null;
      for (int length = 0; length <= key.length(); length++) {
        longest = many.getOrDefault("api/" + key.substring(0, length) + "*", longest);
      }
      assertEquals(longest, table.lookup().find("api", key).text);
    }
  }
}
