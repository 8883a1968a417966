package io.github.redisthrottle.spring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redisthrottle.testing.Server;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.text.Normalizer;
import java.util.List;
import java.util.Locale;
import org.junit.jupiter.api.Test;
import org.springframework.boot.WebApplicationType;
import org.springframework.http.ResponseEntity;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestBody;
import org.springframework.web.bind.annotation.RestController;

/** The login page of the README, and what a guesser tries. */
class LoginTest {
  record Login(String user, String password) {
    Login {
      String folded = user == null ? "" : Normalizer.normalize(user, Normalizer.Form.NFKC).strip().toLowerCase(Locale.ROOT);
      user = folded.substring(0, Math.min(folded.length(), 200));
    }
  }

  @RestController
  static class LoginPage {
    @PostMapping("/login")
    @RateLimit(key = "'{login:' + #login.user + '}:' + address", limits = "RATE 5/15m NAME address")
    @RateLimit(key = "'{login:' + #login.user + '}'", limits = "RATE 300/d NAME account")
    public ResponseEntity<String> login(@RequestBody Login login) {
      boolean right = "correct horse".equals(login.password());
      return right ? ResponseEntity.ok("welcome") : ResponseEntity.status(401).build();
    }
  }

  private static HttpResponse<String> post(Application application, String body) throws IOException, InterruptedException {
    HttpRequest request =
        HttpRequest.newBuilder(URI.create(application.url("/login"))).header("Content-Type", "application/json").POST(HttpRequest.BodyPublishers.ofString(body)).build();
    return HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
  }

  private static int guess(Application application, String user) throws IOException, InterruptedException {
    return post(application, "{\"user\": \"" + user + "\", \"password\": \"guess\"}").statusCode();
  }

  @Test
  void anAccountIsOneHoweverItIsWritten() throws Exception {
    try (Server server = Server.start();
        Application application = Application.start(WebApplicationType.SERVLET, server, List.of(LoginPage.class), "redis-throttle.timeout=20s")) {
      for (String user : List.of("Ann", "ann", "ANN", " ann ", "\uff21nn")) {
        assertEquals(401, guess(application, user), user);
      }
      for (String user : List.of("Ann", "aNN\\t", "\u2003ann", "a\uff4en")) {
        assertEquals(429, guess(application, user), user);
      }
      HttpResponse<String> right = post(application, "{\"user\": \"ann\", \"password\": \"correct horse\"}");
      assertEquals(429, right.statusCode(), "the right password is told to nobody");
      assertTrue(right.body().contains("\"violated-policies\":[\"address\"]") || right.body().contains("\"violated-policies\": [\"address\"]"), right.body());
      assertEquals("\"address\";q=5;w=900, \"account\";q=300;w=86400", right.headers().firstValue("RateLimit-Policy").orElse(""));
      assertEquals(401, guess(application, "bob"));
      assertEquals(200, post(application, "{\"user\": \"Bob\", \"password\": \"correct horse\"}").statusCode());
    }
  }

  @Test
  void aBodyThatIsMissingIsNoErrorOfTheServer() throws Exception {
    try (Server server = Server.start();
        Application application = Application.start(WebApplicationType.SERVLET, server, List.of(LoginPage.class), "redis-throttle.timeout=20s")) {
      assertEquals(400, post(application, "").statusCode());
      assertEquals(400, post(application, "null").statusCode());
      assertEquals(401, post(application, "{}").statusCode());
      assertEquals(401, guess(application, "a".repeat(100_000)));
    }
  }

  @Test
  void theReadmeHasThisPage() throws IOException {
    String folder = "clients/java/spring-boot-starter/";
    String source = Files.readString(Server.ROOT.resolve(folder + "src/test/java/io/github/redisthrottle/spring/LoginTest.java"));
    String page = Files.readString(Server.ROOT.resolve(folder + "README.md"));
    int begins = page.indexOf("record Login");
    String example = page.substring(begins, page.indexOf("```", begins));
    assertTrue(source.replace("static class LoginPage", "class LoginPage").contains(example.replaceAll("(?m)^(?=.)", "  ")), example);
  }
}
