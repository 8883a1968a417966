package io.github.redisthrottle;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redisthrottle.testing.Clients;
import io.github.redisthrottle.testing.Server;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** More callers at once than a process can serve in time: some may be denied as an overload, but the server is up. */
class FloodTest {
  private static final int CALLERS = 10_000;
  private static final Limit QUOTA = Limit.fixed(1_000_000, Duration.ofDays(1));

  @ParameterizedTest
  @EnumSource
  void tenThousandThreadsAreNoOutage(Clients client) throws Exception {
    ExecutorService threads = threads();
    try (Server server = Server.start();
        Limiter limiter = warm(client, server)) {
      for (int round = 0; round < 2; round++) {
        List<Callable<String>> calls = new ArrayList<>();
        for (int i = 0; i < CALLERS; i++) {
          calls.add(() -> outcome(() -> limiter.limit("k", QUOTA)));
        }
        List<String> outcomes = new ArrayList<>();
        for (Future<String> call : threads.invokeAll(calls)) {
          outcomes.add(call.get());
        }
        assertNoOutage(outcomes);
      }
    } finally {
      threads.shutdown();
    }
  }

  @ParameterizedTest
  @EnumSource
  void tenThousandStagesAreNoOutage(Clients client) {
    try (Server server = Server.start();
        Limiter limiter = warm(client, server)) {
      for (int round = 0; round < 2; round++) {
        assertNoOutage(outcomes(limiter, CALLERS));
      }
    }
  }

  @Test
  void callsBeyondThoseThatMayWaitAreAnOverloadAtOnce() {
    try (Server server = Server.start();
        Limiter limiter = Limiter.over(Remote.over(Clients.LETTUCE.patient(server.port)))) {
      limiter.limit("k", QUOTA);
      server.pause();
      List<CompletableFuture<Result>> calls = new ArrayList<>();
      for (int i = 0; i < CALLERS; i++) {
        calls.add(limiter.async().limit("k", QUOTA).toCompletableFuture());
      }
      OverloadException beyond = assertThrows(OverloadException.class, () -> limiter.limit("k", QUOTA));
      assertFalse(beyond.sent());
      assertTrue(beyond.getMessage().contains("127.0.0.1:" + server.port), beyond.getMessage());
      server.resume();
      calls.forEach(call -> assertTrue(call.join().allowed()));
      assertTrue(limiter.limit("k", QUOTA).allowed());
    }
  }

  /** At first it may be that it is busy. */
  @Test
  void aServerThatHangsIsAnOutageAlsoForManyCallers() {
    try (Server server = Server.start();
        Limiter limiter = warm(Clients.LETTUCE, server)) {
      server.pause();
      Server.await("it is an outage", () -> outcomes(limiter, 200).contains("OUTAGE"));
      server.resume();
      Server.await("it is over", () -> outcomes(limiter, 200).contains("DECIDED"));
    }
  }

  private static List<String> outcomes(Limiter limiter, int callers) {
    List<CompletableFuture<String>> calls = new ArrayList<>();
    for (int i = 0; i < callers; i++) {
      calls.add(limiter.async().limit("k", QUOTA).handle((result, error) -> error == null ? "DECIDED" : code(error)).toCompletableFuture());
    }
    return calls.stream().map(CompletableFuture::join).toList();
  }

  private static Limiter warm(Clients client, Server server) {
    Limiter limiter = Limiter.over(client.connect(server.port));
    Server.await("the classes are there", () -> outcome(() -> limiter.limit("warm", QUOTA)).equals("DECIDED"));
    return limiter;
  }

  private static void assertNoOutage(List<String> outcomes) {
    Map<String, Long> count = outcomes.stream().collect(Collectors.groupingBy(Function.identity(), Collectors.counting()));
    assertFalse(count.containsKey("OUTAGE"), count.toString());
    assertTrue(count.getOrDefault("DECIDED", 0L) > 0, count.toString());
  }

  private static String outcome(Callable<Result> call) {
    try {
      call.call();
      return "DECIDED";
    } catch (Exception e) {
      return code(e);
    }
  }

  private static String code(Throwable error) {
    return Errors.unwrapped(error) instanceof ThrottleException known ? known.code() : error.toString();
  }

  /** Returns a virtual thread for each call, or so many threads that the processor has none to spare. */
  private static ExecutorService threads() throws ReflectiveOperationException {
    if (Runtime.version().feature() < 21) {
      return Executors.newFixedThreadPool(500);
    }
    return (ExecutorService) Executors.class.getMethod("newVirtualThreadPerTaskExecutor").invoke(null);
  }
}
