package io.github.redisthrottle.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redisthrottle.testing.Server;
import java.time.Duration;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** What the benchmark measures limits, and is counted rightly. */
class BenchTest {
  private static Server server;

  @BeforeAll
  static void start() {
    server = Server.start();
  }

  @AfterAll
  static void stop() {
    server.close();
  }

  @ParameterizedTest
  @EnumSource
  void eachLimiterLimits(Kind kind) {
    try (Subject subject = kind.open(server.url(), new Kind.Asked(10, Duration.ofHours(1), false))) {
      int allowed = 0;
      for (int i = 0; i < 11; i++) {
        allowed += subject.allows("k" + kind) ? 1 : 0;
      }
      // Spring's has no rate below one in a second.
      assertTrue(allowed == 10 || (kind == Kind.SPRING && allowed == 11), "allowed " + allowed);
    }
  }

  @ParameterizedTest
  @EnumSource
  void roundTripsAreCounted(Kind kind) {
    Main.Counted counted = Main.count(kind, Calls.PLENTY, server.url(), 10);
    boolean batched = kind == Kind.BATCHED;
    assertTrue(batched ? counted.reads() < 10 : counted.reads() >= 10 && counted.reads() < 30, counted::toString);
    if (kind == Kind.LETTUCE || kind == Kind.JEDIS) {
      assertEquals(10, counted.commands());
    }
  }
}
