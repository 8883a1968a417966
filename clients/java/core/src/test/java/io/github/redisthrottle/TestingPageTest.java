package io.github.redisthrottle;

import static io.github.redisthrottle.Limit.fixed;
import static io.github.redisthrottle.Limit.rate;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redisthrottle.lettuce.LettuceConnection;
import io.github.redisthrottle.testing.Server;
import io.github.redisthrottle.testing.ThrottleDev;
import io.github.redisthrottle.testing.ThrottleExtension;
import java.io.IOException;
import java.nio.file.Files;
import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;

/** The examples of docs/testing.md, which are these classes word for word, and the rest of throttle-dev's help. */
class TestingPageTest {
  @Nested
  @ExtendWith(ThrottleExtension.class)
  class MailerTest {
    /** What is tested: two messages a minute for each user. */
    record Mailer(Limiter limiter) {
      String send(String user) {
        return limiter.limit("mail:" + user, rate(2, Duration.ofMinutes(1))).limited() ? "try later" : "sent";
      }
    }

    @Test
    void theThirdMessageOfAMinuteIsRefused(FakeLimiter fake) {
      Mailer mailer = new Mailer(fake.limiter());
      for (String expected : List.of("sent", "sent", "try later", "sent")) {
        assertEquals(expected, mailer.send("ann"));
        fake.advance(Duration.ofSeconds(10));
      }
      assertEquals("CL.LIMIT mail:ann RATE 2/1m COMPACT", fake.asked().get(0).toString());
    }

    @Test
    void aMonthEndsAtMidnightInBerlin(FakeLimiter fake) {
      Limit quota = fixed(1, 1, ChronoUnit.MONTHS).zone("Europe/Berlin");
      fake.setTime(Instant.parse("2026-03-31T21:59:59Z"));
      assertTrue(fake.limiter().limit("acme", quota).allowed());
      assertEquals(Duration.ofSeconds(1), fake.limiter().limit("acme", quota).retryAfter().orElseThrow());
      fake.advance(Duration.ofSeconds(1));
      assertTrue(fake.limiter().limit("acme", quota).allowed());
    }

    @Test
    void anOutageIsTold(FakeLimiter fake) {
      Mailer mailer = new Mailer(fake.limiter());
      fake.fail();
      assertThrows(OutageException.class, () -> mailer.send("ann"));
      fake.heal();
      assertEquals("sent", mailer.send("ann"));
    }
  }

  @Nested
  @ExtendWith(ThrottleExtension.class)
  class QuotaTest {
    @Test
    void aMonthPasses(ThrottleDev server) {
      Limit quota = fixed(1, 1, ChronoUnit.MONTHS);
      server.setTime(Instant.parse("2026-01-31T12:00:00Z")); // and it stands still
      try (Limiter limiter = Limiter.over(LettuceConnection.of(server.url()))) {
        assertTrue(limiter.limit("acme", quota).allowed());
        assertTrue(limiter.limit("acme", quota).limited());
        server.advance("1mo");
        assertTrue(limiter.limit("acme", quota).allowed());
      }
    }
  }

  @Test
  void thePageHasTheseClasses() throws IOException {
    String source = Files.readString(Server.ROOT.resolve("clients/java/core/src/test/java/io/github/redisthrottle/TestingPageTest.java"));
    Matcher example = Pattern.compile("```java\\n(@ExtendWith.*?)```", Pattern.DOTALL).matcher(Files.readString(Server.ROOT.resolve("docs/testing.md")));
    int examples = 0;
    for (; example.find(); examples++) {
      assertTrue(source.contains(example.group(1).replaceAll("(?m)^(?=.)", "  ")), example.group(1));
    }
    assertEquals(2, examples);
  }

  @Test
  void twoServersRunAtATimeAndOneThatIsMissingIsAnErrorThatSaysWhatToDo() {
    ThrottleDev one = ThrottleDev.start();
    try (ThrottleDev two = ThrottleDev.start()) {
      assertEquals("PONG", one.command("PING"));
      assertTrue(one.port() != two.port());
      assertThrows(IllegalStateException.class, () -> one.command("CL.DEV.TIME", "yesterday"));
    } finally {
      one.close();
    }
    assertThrows(IllegalStateException.class, () -> one.command("PING"));
    Exception missing = assertThrows(IllegalStateException.class, () -> ThrottleDev.start("no-such-throttle-dev"));
    assertTrue(missing.getMessage().contains("go build ./cmd/throttle-dev"), missing.getMessage());
  }
}
