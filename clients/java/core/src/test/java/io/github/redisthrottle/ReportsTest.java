package io.github.redisthrottle;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redisthrottle.connection.Connection;
import io.github.redisthrottle.testing.Clients;
import io.github.redisthrottle.testing.Server;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import redis.clients.jedis.Jedis;

/** Denials that a layer answers by itself, and what the server is told of them. */
class ReportsTest {
  private static final Limit ONCE = Limit.rate(1, Duration.ofHours(1));

  private static boolean counts(Server server, String key, long limited) {
    try (Jedis client = server.client()) {
      for (Object row : (List<?>) client.sendCommand(() -> "CL.TOP".getBytes(StandardCharsets.UTF_8), "100")) {
        List<?> fields = (List<?>) row;
        if (key.equals(new String((byte[]) fields.get(1), StandardCharsets.UTF_8))) {
          return fields.get(5).equals(limited);
        }
      }
    }
    return false;
  }

  @ParameterizedTest
  @EnumSource
  void clTopCountsWhatALayerDenies(Clients client) {
    try (Server server = Server.start();
        Connection connection = client.patient(server.port)) {
      server.run("CONFIG", "SET", "throttle.top", "100");
      Decider remote = Remote.over(connection);
      for (Map.Entry<String, Decider> layer : Map.<String, Decider>of("cached", Cached.of(remote), "batched", Batched.of(remote)).entrySet()) {
        Limiter limiter = Limiter.over(layer.getValue());
        assertTrue(limiter.limit(layer.getKey(), ONCE).allowed());
        for (int i = 0; i < 300; i++) {
          assertTrue(limiter.limit(layer.getKey(), ONCE).limited());
        }
        Server.await("all denials are counted", () -> counts(server, layer.getKey(), 300));
      }
    }
  }

  // In time that is made up, on a server that takes reports as it is told.

  private final AtomicLong now = new AtomicLong();
  private final Deque<Runnable> due = new ArrayDeque<>();
  private final List<Call> told = new ArrayList<>();
  private CompletionStage<Result> answer;

  private final Reports reports =
      new Reports(
          call -> {
            told.add(call);
            return answer != null ? answer : counted(call.cost());
          },
          (ns, act) -> due.add(act),
          now::get);

  private static CompletionStage<Result> counted(long n) {
    State.Draft draft = State.of("");
    draft.granted = n;
    return CompletableFuture.completedFuture(draft.done());
  }

  @Test
  void tenThousandKeysWaitAndAHundredAreReportedAtATime() {
    for (int i = 0; i < 1_000_000; i++) {
      reports.count(String.valueOf(i));
    }
    reports.count("0");
    reports.count("k".repeat(1025));
    for (int rounds = 1; rounds <= 100; rounds++) {
      assertEquals(1, due.size());
      due.remove().run();
      assertEquals(rounds * Reports.PER_ROUND, told.size());
    }
    due.remove().run();
    assertEquals(Reports.MOST, told.size());
    assertEquals(2, told.get(0).cost());
    assertTrue(due.isEmpty());
  }

  private void isAskedAgainAfter(long pauseNs, CompletionStage<Result> answer) {
    this.answer = answer;
    for (int asked = 1; asked <= 3; asked++) {
      for (int i = 0; i < 2; i++) {
        reports.count("a");
        reports.count("b");
        while (!due.isEmpty()) {
          due.remove().run();
        }
        assertEquals(asked, told.size());
      }
      now.addAndGet(pauseNs);
    }
  }

  @Test
  void aServerWhoseTopIsOffIsAskedOnceAMinute() {
    isAskedAgainAfter(Reports.UNTIL_ON_NS, counted(0));
  }

  @Test
  void aServerThatIsAwayIsAskedOnceAMinute() {
    isAskedAgainAfter(Reports.UNTIL_ON_NS, CompletableFuture.failedFuture(new OutageException("away", null)));
  }

  @Test
  void aServerWithoutTheCommandIsAskedOnceAnHour() {
    isAskedAgainAfter(Reports.UNTIL_KNOWN_NS, CompletableFuture.failedFuture(new MistakeException("unknown command", null)));
  }
}
