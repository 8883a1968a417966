package io.github.redisthrottle.spring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redisthrottle.Limit;
import io.github.redisthrottle.Limiter;
import io.github.redisthrottle.MistakeException;
import io.github.redisthrottle.testing.Server;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.boot.WebApplicationType;
import redis.clients.jedis.Jedis;

/** An application whose server has no module. */
class FunctionsTest {
  private static Application start(Server server, String client, String... more) {
    String[] properties = {
      "redis-throttle.routes[0].limits=RATE 1/h",
      "redis-throttle.routes[0].paths=/open/**",
      "spring.data.redis.client-type=" + client,
      "spring.data.redis.port=" + server.port
    };
    List<String> all = new ArrayList<>(List.of(properties));
    all.addAll(List.of(more));
    return Application.start(WebApplicationType.SERVLET, null, List.of(), all.toArray(String[]::new));
  }

  @ParameterizedTest
  @ValueSource(strings = {"lettuce", "jedis"})
  void theLibraryOfFunctionsIsLoadedAndCalled(String client) {
    try (Server server = Server.plain();
        Application application = start(server, client);
        Jedis redis = server.client()) {
      assertEquals(200, application.get("/open/a").statusCode());
      HttpResponse<String> denied = application.get("/open/a");
      assertEquals(429, denied.statusCode());
      assertTrue(denied.headers().firstValue("Retry-After").isPresent(), denied.headers()::toString);
      assertEquals(200, application.get("/actuator/health").statusCode());
      assertTrue(redis.info("commandstats").contains("cmdstat_fcall:"), () -> redis.info("commandstats"));
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"lettuce", "jedis"})
  void aUserWhoMayLoadNothingIsAMistakeThatSaysSo(String client) {
    try (Server server = Server.plain()) {
      server.run("ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all", "-@scripting");
      try (Application application = start(server, client, "spring.data.redis.username=app", "spring.data.redis.password=secret")) {
        assertEquals(500, application.get("/open/a").statusCode());
        Limiter limiter = application.bean(Limiter.class);
        String mistake = assertThrows(MistakeException.class, () -> limiter.limit("k", Limit.rate(1, Duration.ofHours(1)))).getMessage();
        assertTrue(mistake.contains("NOPERM"), mistake);
        HttpResponse<String> health = application.get("/actuator/health");
        assertEquals(503, health.statusCode());
        assertTrue(health.body().contains("NOPERM"), health.body());
      }
    }
  }
}
