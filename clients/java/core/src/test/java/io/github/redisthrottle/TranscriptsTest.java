package io.github.redisthrottle;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redisthrottle.testing.Server;
import java.io.IOException;
import java.nio.file.Files;
import java.time.Instant;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.DynamicContainer;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/**
 * The transcripts of spec/, decided in this process: by what a guard with local limits and a limiter for tests decide
 * with.
 */
class TranscriptsTest {
  /** Values in keys, lines of callers, redis-cell's command and the words of errors are the server's alone. */
  private static final List<String> FILES =
      List.of("rate", "window", "calendar", "limits", "kept", "refund", "bans", "shadows", "keys", "slots", "settling", "leases", "zero", "denials", "inspect");

  /** The zones of Java have laws of their own version. */
  private static final List<String> OTHERWISE = List.of("Clocks are those of the laws of 2026.");

  private static final Pattern FIELD = Pattern.compile("(\\w+)=(\\[.*\\]|\\S+)");

  private static final AtomicInteger HERE = new AtomicInteger();

  @TestFactory
  List<DynamicContainer> rules() throws IOException {
    List<DynamicContainer> all = new ArrayList<>();
    for (String file : FILES) {
      Map<String, List<String>> examples = new java.util.LinkedHashMap<>();
      List<String> lines = null;
      for (String line : Files.readAllLines(Server.ROOT.resolve("spec/" + file + ".txt")).stream().skip(1).toList()) {
        if (line.startsWith("# ")) {
          lines = examples.computeIfAbsent(line.substring(2), rule -> new ArrayList<>());
        } else if (!line.isEmpty()) {
          lines.add(line);
        }
      }
      examples.keySet().removeAll(OTHERWISE);
      all.add(DynamicContainer.dynamicContainer(file,
          examples.entrySet().stream().map(one -> DynamicTest.dynamicTest(one.getKey(), () -> holds(one.getValue())))));
    }
    return all;
  }

  @AfterAll
  static void mostOfTheSpecificationIsForThisProcess() {
    assertTrue(HERE.get() > 400, HERE + " calls");
  }

  private static void holds(List<String> lines) {
    Engine engine = new Engine(new HashMap<>());
    long now = Windows.nanos(Instant.parse("2026-01-01T00:00:00Z"));
    for (int i = 0; i < lines.size(); i++) {
      String line = lines.get(i);
      if (line.startsWith("@")) {
        now = Windows.nanos(Instant.parse(line.substring(1)));
      } else if (line.startsWith("+") || line.startsWith("-")) {
        now += (line.charAt(0) == '+' ? 1 : -1) * Transcripts.length(line.substring(1));
      } else if (line.startsWith("> ")) {
        String expected = lines.get(++i);
        if (expected.startsWith("(error)")) {
          continue;
        }
        try {
          Deque<String> words = new ArrayDeque<>(Arrays.asList(line.substring(2).split("\\s+")));
          if (words.peek().equals("CL.INSPECT")) {
            compare(engine.inspect(words.getLast(), now, 0), expected, line);
          } else {
            Call call = Transcripts.call(words);
            compare(call, engine.decide(call, now), expected, line);
          }
        } catch (Transcripts.NotHere e) {
          return;
        }
        HERE.incrementAndGet();
      } else if (!line.startsWith("= ")) {
        return;
      }
    }
  }

  private static void compare(Inspection told, String expected, String line) {
    Map<String, String> fields = Transcripts.inspection(told);
    Matcher field = FIELD.matcher(expected);
    while (field.find()) {
      if (!field.group(1).equals("bytes")) { // this process keeps none
        assertEquals(field.group(2), fields.get(field.group(1)), line + ": " + field.group(1));
      }
    }
  }

  private static void compare(Call call, Result result, String expected, String line) {
    Map<String, Long> reply = Transcripts.reply(call, result);
    if (call.verb() == Call.Verb.BAN) {
      assertEquals(expected, String.valueOf(result.lasts().toMillis()), line);
    } else if (call.verb() == Call.Verb.RELEASE) {
      assertEquals(expected, String.valueOf(-result.granted()), line);
    } else if (expected.matches("-?[0-9]+ .*")) {
      if (call.verb() == Call.Verb.LEASE || call.verb() == Call.Verb.RENEW) {
        throw new Transcripts.NotHere("a lease as integers");
      }
      List<String> names = new ArrayList<>(Transcripts.ORDER.subList(0, call.several() ? 11 : 10));
      names.set(0, call.verb() == Call.Verb.SETTLE ? "settled" : "limited");
      String numbers = String.join(" ", names.stream().map(name -> reply.get(name).toString()).toList());
      // Clients drop when to retry what was let through.
      String told = expected.replaceAll("\\[0 (\\S+) (\\S+) \\S+ ", "[0 $1 $2 -1 ");
      assertEquals(told, (numbers + " " + Transcripts.each(result)).strip(), line);
    } else {
      Matcher field = FIELD.matcher(expected);
      while (field.find()) {
        String name = field.group(1);
        assertEquals(field.group(2), name.equals("each") ? "[" + Transcripts.each(result) + "]" : String.valueOf(reply.get(name)), line + ": " + name);
      }
    }
  }
}
