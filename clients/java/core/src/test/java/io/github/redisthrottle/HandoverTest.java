package io.github.redisthrottle;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redisthrottle.lettuce.LettuceConnection;
import io.github.redisthrottle.testing.Clients;
import io.github.redisthrottle.testing.Server;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.api.async.RedisAsyncCommands;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** What a caller does next, and where: never in a thread that reads replies. */
class HandoverTest {
  private static final Limit QUOTA = Limit.fixed(1_000_000, Duration.ofDays(1));
  private static Server server;

  @BeforeAll
  static void start() {
    server = Server.start();
  }

  @AfterAll
  static void stop() {
    server.close();
  }

  private static Limiter limiter() {
    Limiter limiter = Limiter.over(LettuceConnection.of(server.url()));
    Server.await("the classes are there", () -> outcome(limiter, "warm").equals("decided"));
    return limiter;
  }

  private static String outcome(Limiter limiter, String key) {
    try {
      limiter.limit(key, QUOTA);
      return "decided";
    } catch (ThrottleException e) {
      return e.code();
    }
  }

  /** Each takes 20 ms, so one thread would take 2 s for all of them, and a call may take 200 ms. */
  @Test
  void aCallerThatIsSlowKeepsNoReplyFromBeingRead() {
    List<CompletableFuture<String>> calls = new ArrayList<>();
    Set<String> threads = ConcurrentHashMap.newKeySet();
    try (Limiter limiter = limiter()) {
      for (int i = 0; i < 100; i++) {
        calls.add(
            limiter
                .async()
                .limit("slow", QUOTA)
                .handle(
                    (result, error) -> {
                      threads.add(Thread.currentThread().getName());
                      LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(20));
                      return error == null ? "decided" : String.valueOf(Errors.unwrapped(error));
                    })
                .toCompletableFuture());
      }
      assertEquals(Map.of("decided", 100L), count(calls));
      assertFalse(threads.stream().anyMatch(name -> name.contains("lettuce")), threads.toString());
    }
  }

  /** More than the pool has threads, and nothing that it could know of. Those of a batch share one reply. */
  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void callersThatBlockKeepNobodyFromADecision(boolean batched) throws Exception {
    int many = 2 * Runtime.getRuntime().availableProcessors() + 2;
    CountDownLatch end = new CountDownLatch(1);
    AtomicInteger inside = new AtomicInteger();
    List<CompletableFuture<String>> calls = new ArrayList<>();
    try (Server own = Server.start()) {
      LettuceConnection connection = LettuceConnection.of(RedisURI.create(own.url()), Duration.ofSeconds(30));
      try (Limiter limiter = batched ? Limiter.over(Batched.of(Remote.over(connection))) : Limiter.over(connection)) {
        try {
          limiter.limit("warm", QUOTA);
          own.pause(); // so that none goes on in this thread
          for (int i = 0; i < many; i++) {
            calls.add(limiter.async().limit("blocks", QUOTA).thenApply(result -> waits(inside, end)).toCompletableFuture());
          }
          own.resume();
          Server.await("all are decided, though those before them block", () -> inside.get() == many);
          assertTrue(limiter.async().limit("other", QUOTA).toCompletableFuture().get(30, TimeUnit.SECONDS).allowed());
        } finally {
          end.countDown(); // before the limiter waits for them
        }
        assertEquals(Map.of("ended", (long) many), count(calls));
      }
    }
  }

  private static String waits(AtomicInteger inside, CountDownLatch end) {
    inside.incrementAndGet();
    try {
      return end.await(2, TimeUnit.MINUTES) ? "ended" : "late";
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  /** So many that a pool of a fixed size would be full of those that wait for each other. */
  @ParameterizedTest
  @EnumSource
  void aCallerMayBlockInWhatItDoesNext(Clients client) {
    Limit seven = Limit.fixed(7, Duration.ofDays(1));
    List<CompletableFuture<String>> calls = new ArrayList<>();
    try (Limiter limiter = Limiter.over(client.patient(server.port))) {
      for (int i = 0; i < 50; i++) {
        calls.add(
            limiter
                .async()
                .limit("first", QUOTA)
                .thenApply(first -> limiter.limit("blocks" + client, seven))
                .thenCompose(second -> limiter.async().limit("third", QUOTA).thenApply(third -> second))
                .thenApply(second -> limiter.async().limit("fourth", QUOTA).thenApply(fourth -> second).toCompletableFuture().join())
                .handle((result, error) -> error != null ? String.valueOf(Errors.unwrapped(error)) : result.allowed() ? "allowed" : "limited")
                .toCompletableFuture());
      }
      assertEquals(Map.of("allowed", 7L, "limited", 43L), count(calls));
    }
  }

  @Test
  void aThreadThatReadsRepliesMayNotBlock() {
    RedisURI uri = RedisURI.create(server.url());
    RedisClient client = RedisClient.create(uri);
    try (Limiter limiter = Limiter.over(LettuceConnection.over(client, uri, Duration.ofSeconds(30)))) {
      limiter.limit("loop", QUOTA);
      List<CompletableFuture<String>> calls = new ArrayList<>();
      for (int i = 0; i < 2 * Runtime.getRuntime().availableProcessors() + 2; i++) { // of which some share the limiter's thread
        RedisAsyncCommands<String, String> yours = client.connect().async();
        calls.add(
            yours
                .blpop(0.05, "nothing")
                .thenApply(nothing -> limiter.limit("loop", QUOTA))
                .handle((result, error) -> error == null ? "decided" : Errors.unwrapped(error).toString())
                .toCompletableFuture());
      }
      Map<String, Long> outcomes = count(calls);
      long decided = outcomes.getOrDefault("decided", 0L);
      List<String> others = outcomes.keySet().stream().filter(outcome -> !outcome.equals("decided")).toList();
      assertFalse(others.isEmpty(), outcomes.toString());
      assertTrue(others.stream().allMatch(text -> text.contains("MistakeException: a blocking call in lettuce-")), outcomes.toString());
      assertEquals(1_000_000 - 1 - decided, limiter.peek("loop", QUOTA).remaining(), "a mistake charges nothing");
    } finally {
      client.shutdown(Duration.ZERO, Duration.ofSeconds(30));
    }
  }

  /** What comes for a caller that has left is for others, such as those whose call it shares. */
  @Test
  void aReplyOutlivesTheCallerThatWaitedForIt() throws InterruptedException {
    try (Server own = Server.start();
        Limiter limiter = Limiter.over(Batched.of(Remote.over(Clients.LETTUCE.patient(own.port))))) {
      own.pause();
      Thread first = new Thread(() -> outcome(limiter, "shared"));
      first.start();
      Server.await("it waits", () -> first.getState() == Thread.State.WAITING);
      CompletableFuture<Result> second = limiter.async().limit("shared", QUOTA).toCompletableFuture();
      first.interrupt();
      first.join();
      own.resume();
      assertTrue(second.orTimeout(30, TimeUnit.SECONDS).join().allowed());
    }
  }

  private static Map<String, Long> count(List<CompletableFuture<String>> calls) {
    return calls.stream().map(CompletableFuture::join).collect(Collectors.groupingBy(Function.identity(), Collectors.counting()));
  }
}
