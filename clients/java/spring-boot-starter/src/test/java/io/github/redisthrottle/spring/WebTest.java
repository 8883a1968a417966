package io.github.redisthrottle.spring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.github.redisthrottle.Limit;
import io.github.redisthrottle.Limiter;
import io.github.redisthrottle.Result;
import io.github.redisthrottle.testing.Server;
import java.io.IOException;
import java.net.InetAddress;
import java.net.NetworkInterface;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.springframework.boot.WebApplicationType;

/** What holds for servlet and WebFlux applications alike. */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
abstract class WebTest {
  static final ObjectMapper JSON = new ObjectMapper();

  private final WebApplicationType type;
  final Server server = Server.start();
  final Application application;

  WebTest(WebApplicationType type, Class<?>... beans) {
    this.type = type;
    this.application =
        Application.start(
            type,
            server,
            List.of(beans),
            "redis-throttle.limits.plans.pro=RATE 2/h NAME pro; FIXED 1000/d NAME daily",
            "redis-throttle.clients.trusted=127.0.0.0/8",
            "redis-throttle.outgoing.github.limits=RATE 1/h",
            "redis-throttle.routes[0].paths=/open/**",
            "redis-throttle.routes[0].limits=RATE 2/h",
            "redis-throttle.routes[0].name=open",
            "redis-throttle.routes[0].skip=query('internal') == 'yes'",
            "redis-throttle.routes[1].paths=/both/{page}",
            "redis-throttle.routes[1].methods=GET",
            "redis-throttle.routes[1].keys[0].key='{'+header('X-Key')+'}:user'",
            "redis-throttle.routes[1].keys[0].limits=plans.pro",
            "redis-throttle.routes[1].keys[1].key='{'+header('X-Key')+'}'",
            "redis-throttle.routes[1].keys[1].limits=RATE 3/h NAME all",
            "redis-throttle.routes[2].paths=/who",
            "redis-throttle.routes[2].key=principal",
            "redis-throttle.routes[2].limits=RATE 1/h",
            "redis-throttle.routes[2].ban=1h",
            "redis-throttle.routes[3].paths=/limited",
            "redis-throttle.routes[3].key='twice'",
            "redis-throttle.routes[3].limits=plans.pro",
            "redis-throttle.routes[3].skip=query('both') != 'yes'",
            "redis-throttle.routes[4].paths=/inside/**",
            "redis-throttle.routes[4].limits=RATE 0/h",
            "redis-throttle.routes[4].skip=10.0.0.0/8, 2001:db8::/32, 127.0.0.2");
  }

  @AfterAll
  void stop() {
    application.close();
    server.close();
  }

  private static String field(HttpResponse<String> response, String name) {
    return response.headers().firstValue(name).orElse("");
  }

  private static void problem(HttpResponse<String> response, int status, String title, String policy) throws IOException {
    assertEquals(status, response.statusCode());
    assertTrue(field(response, "Content-Type").startsWith("application/problem+json"), field(response, "Content-Type"));
    JsonNode body = JSON.readTree(response.body());
    assertEquals(status, body.get("status").asInt());
    assertEquals(title, body.get("title").asText());
    assertEquals(policy, body.path("violated-policies").path(0).asText());
  }

  @Test
  void aRouteLimitsTheAddressBehindATrustedProxy() throws IOException {
    HttpResponse<String> first = application.get("/open/a", "X-Forwarded-For", "198.51.100.1, 203.0.113.7");
    assertEquals(200, first.statusCode());
    assertEquals("\"default\";q=2;w=3600", field(first, "RateLimit-Policy"));
    assertEquals("\"default\";r=1;t=1800", field(first, "RateLimit"));
    assertEquals("", field(first, "Retry-After"));
    assertEquals(200, application.get("/open/b", "X-Forwarded-For", "198.51.100.2, 203.0.113.7").statusCode());
    HttpResponse<String> denied = application.get("/open/c", "X-Forwarded-For", "203.0.113.7");
    problem(denied, 429, "Quota Exceeded", "default");
    assertTrue(Integer.parseInt(field(denied, "Retry-After")) > 1700);
    assertEquals(200, application.get("/open/c", "X-Forwarded-For", "203.0.113.8").statusCode());
    assertEquals(200, application.get("/open/c?internal=yes", "X-Forwarded-For", "203.0.113.7").statusCode());
    assertEquals("", field(application.get("/open/c?internal=yes", "X-Forwarded-For", "203.0.113.7"), "RateLimit"));
    try (var redis = server.client()) {
      assertTrue(redis.exists("http:open:203.0.113.7"));
    }
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "10.2.3.4 | true",
        "::ffff:10.2.3.4 | true",
        "2001:DB8::1 | true",
        "127.0.0.2 | true",
        "203.0.113.7 | false",
        "10.2.3.4, 203.0.113.7 | false",
        "203.0.113.7, 10.2.3.4 | false",
        "unknown | false",
      })
  void requestsOfNetworksAreNotLimited(String forwarded, boolean skipped) throws IOException {
    assertEquals(skipped ? 404 : 429, application.get("/inside/a", "X-Forwarded-For", forwarded).statusCode());
    assertEquals(skipped ? 200 : 429, application.get("/skipped", "X-Forwarded-For", forwarded).statusCode(), "by the annotation");
  }

  /**
   * Of all that stands in X-Forwarded-For, Spring takes the left end for the peer, where the client writes, and drops
   * the rest.
   */
  @Test
  void networksAreNotToldByWhatSpringTakesForThePeer() {
    try (Application other =
        Application.start(
            type,
            server,
            List.of(),
            "server.forward-headers-strategy=framework",
            "redis-throttle.clients.trusted=127.0.0.0/8",
            "redis-throttle.routes[0].paths=/inside/**",
            "redis-throttle.routes[0].limits=RATE 0/h",
            "redis-throttle.routes[0].skip=10.0.0.0/8")) {
      for (String[] forged : new String[][] {{"X-Forwarded-For", "10.2.3.4, 203.0.113.7"}, {"Forwarded", "for=10.2.3.4", "X-Forwarded-For", "203.0.113.7"}}) {
        assertEquals(429, other.get("/inside/a", forged).statusCode(), String.join(" ", forged));
        assertEquals(429, other.get("/skipped", forged).statusCode(), "by the annotation");
      }
      // A servlet application sees behind Spring's notion. WebFlux does not show what was received.
      assertEquals(type == WebApplicationType.SERVLET ? 404 : 429, other.get("/inside/a", "X-Forwarded-For", "10.2.3.4").statusCode());
    }
  }

  @Test
  void addressesOfOneNetworkShareAKey() {
    assertEquals(200, application.get("/open/a", "X-Forwarded-For", "2001:db8:1:2::1").statusCode());
    assertEquals(200, application.get("/open/a", "X-Forwarded-For", "[2001:DB8:1:2:ffff::9]:4711").statusCode());
    assertEquals(429, application.get("/open/a", "X-Forwarded-For", "2001:db8:1:2:3::1").statusCode());
    assertEquals(200, application.get("/open/a", "X-Forwarded-For", "2001:db8:1:3::1").statusCode());
  }

  @Test
  void aClientThatIsNoTrustedProxyCountsForItselfWhateverItSays() throws IOException {
    byte[] loopback = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    assumeTrue(NetworkInterface.getByInetAddress(InetAddress.getByAddress(loopback)) != null, "this machine has no IPv6");
    for (int i = 0; i < 3; i++) { // ::1 is none of 127.0.0.0/8
      assertEquals(i < 2 ? 200 : 429, application.getFrom("[::1]", "/open/a", "X-Forwarded-For", "203.0.113." + (100 + i)).statusCode());
    }
    try (var redis = server.client()) {
      assertTrue(redis.exists("http:open:::/64"));
      assertFalse(redis.exists("http:open:203.0.113.100"));
    }
  }

  @Test
  void severalKeysAreChargedTogetherOrNotAtAll() throws IOException {
    HttpResponse<String> first = application.get("/both/a", "X-Key", "keys");
    assertEquals("\"pro\";q=2;w=3600, \"daily\";q=1000;w=86400, \"all\";q=3;w=3600", field(first, "RateLimit-Policy"));
    assertTrue(field(first, "RateLimit").matches("\"pro\";r=1;t=[0-9]+, \"daily\";r=999;t=[0-9]+, \"all\";r=2;t=[0-9]+"), field(first, "RateLimit"));
    assertEquals(200, application.get("/both/a", "X-Key", "keys").statusCode());
    for (int i = 0; i < 3; i++) {
      problem(application.get("/both/a", "X-Key", "keys"), 429, "Quota Exceeded", "pro");
    }
    Result other = application.bean(Limiter.class).peek("http:RATE 3/1h:{keys}", Limit.rate(3, Duration.ofHours(1)));
    assertEquals(1, other.remaining(), "denied requests have taken nothing of the other key");
  }

  @Test
  void limitsOfARouteAndOfItsControllerAreNamedApart() throws IOException {
    HttpResponse<String> first = application.get("/limited?both=yes", "X-Key", "apart");
    String policy = "\"pro\";q=2;w=3600, \"daily\";q=1000;w=86400, \"pro-2\";q=2;w=3600, \"daily-2\";q=1000;w=86400";
    assertEquals(policy, field(first, "RateLimit-Policy"));
    assertTrue(field(first, "RateLimit").matches("\"pro\";r=1;.*, \"daily\";r=999;.*, \"pro-2\";r=1;.*, \"daily-2\";r=999;.*"), field(first, "RateLimit"));
    assertEquals(200, application.get("/limited", "X-Key", "apart").statusCode());
    HttpResponse<String> denied = application.get("/limited?both=yes", "X-Key", "apart");
    problem(denied, 429, "Quota Exceeded", "pro-2");
    assertEquals(policy, field(denied, "RateLimit-Policy"));
  }

  @Test
  void aRouteOfAnotherPathIsNone() {
    assertEquals("", field(application.get("/actuator/health"), "RateLimit"));
  }

  @Test
  void aKeyThatIsNullIsAMistake() {
    assertEquals(500, application.get("/limited").statusCode());
    assertEquals(500, application.get("/both/a").statusCode(), "a part of the key is null");
    assertEquals(500, application.get("/who").statusCode());
  }

  @Test
  void anAnnotationOfAControllerSetsFieldsAndAnswers() throws IOException {
    HttpResponse<String> first = application.get("/limited", "X-Key", "page");
    assertEquals(200, first.statusCode());
    assertEquals("{\"page\":\"served\"}", first.body());
    assertTrue(field(first, "RateLimit").startsWith("\"pro\";r=1;t="), field(first, "RateLimit"));
    assertEquals(200, application.get("/limited", "X-Key", "page").statusCode());
    HttpResponse<String> denied = application.get("/limited", "X-Key", "page");
    problem(denied, 429, "Quota Exceeded", "pro");
    assertTrue(Integer.parseInt(field(denied, "Retry-After")) > 1700);
  }

  @Test
  void aServiceThatAControllerCallsAnswersToo() throws IOException {
    assertEquals(200, application.get("/report/ann").statusCode());
    HttpResponse<String> second = application.get("/report/ann");
    assertTrue(field(second, "RateLimit").startsWith("\"default\";r=0;t="), field(second, "RateLimit"));
    problem(application.get("/report/ann"), 429, "Quota Exceeded", "default");
  }

  @Test
  void theLimitOfAnotherServiceIsAnError() {
    assertEquals("sent", application.get("/github").body());
    HttpResponse<String> denied = application.get("/github");
    assertEquals(500, denied.statusCode(), "it is not the client that asked too often");
    assertEquals("", field(denied, "RateLimit") + field(denied, "Retry-After"));
  }

  @Test
  void aRouteThatAsksWhoHasSignedInComesBehindSecurity() throws IOException {
    assertEquals("ann", application.get("/who", "X-User", "ann").body());
    problem(application.get("/who", "X-User", "ann"), 429, "Quota Exceeded", "default");
    problem(application.get("/who", "X-User", "ann"), 429, "Abnormal Usage Detected", "");
    assertEquals("bob", application.get("/who", "X-User", "bob").body());
    assertEquals(500, application.get("/who").statusCode());
  }

  @Test
  void healthAndMetricsTellOfDecisions() throws IOException {
    assertEquals(200, application.get("/open/m", "X-Forwarded-For", "192.0.2.1").statusCode());
    assertEquals("UP", JSON.readTree(application.get("/actuator/health").body()).at("/components/redisThrottle/status").asText());
    JsonNode decisions = JSON.readTree(application.get("/actuator/metrics/ratelimit.decisions?tag=outcome:allowed&tag=policy:default&tag=verb:limit&tag=by:server").body());
    assertTrue(decisions.at("/measurements/0/value").asDouble() >= 1, decisions.toString());
    assertTrue(application.get("/actuator/metrics/ratelimit.decision.duration").body().contains("COUNT"));
  }

  @Test
  void inAnOutageTheAnswerDecides() throws IOException {
    try (Server other = Server.start();
        Application opened = outage(other, "redis-throttle.routes[1].outage=deny", "redis-throttle.routes[2].outage=raise", "redis-throttle.retry-after=7s")) {
      other.pause();
      assertEquals(200, opened.get("/open/a").statusCode());
      HttpResponse<String> denied = opened.get("/both/a");
      problem(denied, 503, "Service Unavailable", "");
      assertEquals("7", field(denied, "Retry-After"));
      assertEquals(500, opened.get("/who", "X-User", "ann").statusCode());
      HttpResponse<String> health = opened.get("/actuator/health");
      assertEquals(503, health.statusCode());
      assertEquals("OUTAGE", JSON.readTree(health.body()).at("/components/redisThrottle/details/code").asText(), health.body());
      assertEquals(200, opened.get("/limited", "X-Key", "a").statusCode());
      other.resume();
      Server.await("requests are limited again", () -> !field(opened.get("/open/b"), "RateLimit").isEmpty());
    }
  }

  private Application outage(Server other, String... more) {
    List<String> properties =
        new ArrayList<>(
            List.of(
                "redis-throttle.timeout=200ms",
                "redis-throttle.limits.plans.pro=RATE 2/h NAME pro",
                "redis-throttle.routes[0].paths=/open/**",
                "redis-throttle.routes[0].limits=RATE 1000/s",
                "redis-throttle.routes[1].paths=/both/**",
                "redis-throttle.routes[1].limits=RATE 2/h",
                "redis-throttle.routes[2].paths=/who",
                "redis-throttle.routes[2].limits=RATE 2/h"));
    properties.addAll(List.of(more));
    return Application.start(type, other, List.of(), properties.toArray(String[]::new));
  }
}
