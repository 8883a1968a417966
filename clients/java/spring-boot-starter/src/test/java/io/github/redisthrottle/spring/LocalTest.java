package io.github.redisthrottle.spring;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.github.redisthrottle.testing.Server;
import java.net.http.HttpResponse;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.springframework.boot.WebApplicationType;

/** redis-throttle.local: while Redis is out of reach a process decides by its part of the limits. */
class LocalTest {
  @ParameterizedTest
  @CsvSource({"2, false, 2", "2, true, 2", "8, false, 1", "8, true, 0"})
  void aProcessDecidesByItsPart(int processes, boolean neverMore, int part) {
    try (Server server = Server.start();
        Application application =
            Application.start(
                WebApplicationType.SERVLET,
                server,
                List.of(),
                "redis-throttle.routes[0].limits=RATE 4/h",
                "redis-throttle.outage=deny",
                "redis-throttle.local.processes=" + processes,
                "redis-throttle.local.never-more=" + neverMore)) {
      server.kill();
      List<Integer> statuses = new ArrayList<>();
      for (int i = 0; i < 3; i++) {
        statuses.add(application.get("/open/a").statusCode());
      }
      assertEquals(part, statuses.stream().filter(status -> status == 200).count(), statuses::toString);
      assertEquals(3 - part, statuses.stream().filter(status -> status == 429).count(), statuses::toString);
      server.launch();
      Server.await("Redis decides again, by the whole limit", () -> remaining(application.get("/open/a")) > 2);
    }
  }

  private static int remaining(HttpResponse<String> response) {
    String field = response.headers().firstValue("RateLimit").orElse(";r=0");
    return Integer.parseInt(field.replaceFirst(".*;r=(\\d+).*", "$1"));
  }
}
