package io.github.redisthrottle.spring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.ObjectMapper;
import io.github.redisthrottle.spring.outgoing.OutgoingLimits;
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
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.springframework.boot.WebApplicationType;

/** What the README prints holds. */
class ReadmeTest {
  @TempDir Path folder;

  private static List<String> blocks(String language) throws IOException {
    String page = Files.readString(Server.ROOT.resolve("clients/java/spring-boot-starter/README.md"));
    return Pattern.compile("(?s)```" + language + "\n(.*?)```").matcher(page).results().map((MatchResult block) -> block.group(1)).toList();
  }

  private String location(String... blocks) throws IOException {
    Path file = Files.writeString(folder.resolve("application.yml"), String.join("", blocks));
    return "spring.config.location=" + file.toUri();
  }

  @ParameterizedTest
  @EnumSource(
      value = WebApplicationType.class,
      names = {"SERVLET", "REACTIVE"})
  void anApplicationHasTheRoutes(WebApplicationType type) throws IOException {
    String yaml = blocks("yaml").get(0).replace("/login", "/open/login").replace("methods: POST", "methods: GET");
    try (Server server = Server.start();
        Application application = Application.start(type, server, List.of(), location(yaml), "redis-throttle.limits.plans.pro=RATE 100/s")) {
      for (int i = 0; i < 5; i++) {
        assertEquals(200, application.get("/open/login").statusCode());
      }
      HttpResponse<String> denied = application.get("/open/login");
      assertEquals(429, denied.statusCode());
      ObjectMapper json = new ObjectMapper();
      assertEquals(json.readTree(blocks("json").get(0)), json.readTree(denied.body()));
      assertEquals(500, application.get("/api/x").statusCode(), "nobody has signed in");
    }
  }

  @Test
  void aRouteHasSeveralKeys() throws IOException {
    List<String> yaml = blocks("yaml");
    String routes = "redis-throttle:\n  routes:\n" + yaml.get(1).replace("principal", "header('X-User')");
    try (Server server = Server.start();
        Application application = Application.start(WebApplicationType.SERVLET, server, List.of(), location(routes))) {
      HttpResponse<String> response = application.get("/api/x", "X-Org", "acme", "X-User", "ann");
      assertEquals("\"pro\";q=2;w=3600, \"org\";q=1000;w=1", response.headers().firstValue("RateLimit-Policy").orElse(""));
    }
  }

  @Test
  void thePageOnTestsHasAClassOfTheseTests() throws IOException {
    String test = "clients/java/spring-boot-starter/src/test/java/io/github/redisthrottle/spring/sliced/ReportPagesTest.java";
    String page = Files.readString(Server.ROOT.resolve("docs/testing.md"));
    MatchResult example = Pattern.compile("(?s)```java\n(@WebMvcTest.*?)```").matcher(page).results().findFirst().orElseThrow();
    assertTrue(Files.readString(Server.ROOT.resolve(test)).contains(example.group(1)));
  }

  @Test
  void aServiceHasItsLimit() throws IOException {
    try (Server server = Server.start();
        Application application = Application.start(WebApplicationType.NONE, server, List.of(), location(blocks("yaml").get(2)))) {
      application.bean(OutgoingLimits.class).get("github").take();
    }
  }
}
