package io.github.redisthrottle;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.github.redisthrottle.testing.Server;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** Runs spec/clients/breaker.json: when a server is left alone, and when it is tried again. */
class BreakerTest {
  @TestFactory
  Stream<DynamicTest> rules() throws IOException {
    JsonNode table = new ObjectMapper().readTree(Server.ROOT.resolve("spec/clients/breaker.json").toFile());
    List<DynamicTest> tests = new ArrayList<>();
    for (JsonNode one : table.get("cases")) {
      tests.add(DynamicTest.dynamicTest(one.get("rule").asText(), () -> holds(table, one.get("steps"))));
    }
    return tests.stream();
  }

  private static void holds(JsonNode table, JsonNode steps) {
    AtomicLong now = new AtomicLong();
    Breaker breaker = new Breaker(table.get("failures").asInt(), table.get("pause_ms").asLong() * 1_000_000, now::get);
    Map<String, Long> begun = new HashMap<>();
    int number = 0;
    for (JsonNode step : steps) {
      String where = "step " + ++number + ": " + step;
      now.set(step.get("at").asLong() * 1_000_000);
      for (int i = 0; i < step.path("times").asInt(1); i++) {
        if (step.has("ends")) {
          breaker.leave(begun.get(step.get("ends").asText()), outcome(breaker, step));
          continue;
        }
        long entered = breaker.enter();
        assertEquals(step.get("sent").asBoolean(), entered != Breaker.REFUSED, where);
        if (step.has("begins")) {
          begun.put(step.get("begins").asText(), entered);
        } else if (entered != Breaker.REFUSED) {
          breaker.leave(entered, outcome(breaker, step));
        }
      }
      if (step.has("out")) {
        assertEquals(step.get("out").asBoolean(), breaker.isOut(), where);
      }
    }
  }

  private static Breaker.Outcome outcome(Breaker breaker, JsonNode step) {
    return switch (step.get("call").asText()) {
      case "ok" -> Breaker.Outcome.SUCCESS;
      case "outage" -> Breaker.Outcome.FAILURE;
      case "mistake" -> breaker.isOut() ? Breaker.Outcome.SUCCESS : Breaker.Outcome.NOTHING;
      default -> Breaker.Outcome.NOTHING;
    };
  }
}
