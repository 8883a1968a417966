package io.github.redisthrottle.spring.gateway;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.github.redisthrottle.testing.Server;
import java.io.IOException;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What the README prints holds. */
class ReadmeTest {
  private static final String ROUTE =
      """
      redis-throttle.limits.plans.pro: RATE 5/h NAME pro
      spring.cloud.gateway.server.webflux.routes:
        - id: readme
          uri: ${service}
          predicates: [Path=/readme/**]
      """;

  @Test
  void aRouteHasTheFilters(@TempDir Path folder) throws IOException {
    String page = Files.readString(Server.ROOT.resolve("clients/java/spring-cloud-gateway/README.md"));
    List<String> yaml = Pattern.compile("(?s)```yaml\n(.*?)```").matcher(page).results().map((MatchResult block) -> block.group(1)).toList();
    String filters = yaml.get(1).replace("principal", "header('X-User')").indent(4);
    Path file = Files.writeString(folder.resolve("application.yml"), ROUTE + filters + yaml.get(0));
    try (Server server = Server.start();
        Gateway gateway = Gateway.start(server, "spring.config.location=" + file.toUri(), "redis-throttle.timeout=20s")) {
      HttpResponse<String> response = gateway.get("/readme/a?user=ann", "X-Org", "acme", "X-User", "ann");
      assertEquals("served", response.body());
      assertEquals(
          "\"limit-1\";q=100;w=60, \"limit-2\";q=10000;w=86400, \"pro\";q=5;w=3600, \"org\";q=1000;w=1",
          String.join(", ", response.headers().allValues("RateLimit-Policy")));
    }
  }
}
