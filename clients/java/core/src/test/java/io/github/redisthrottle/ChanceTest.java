package io.github.redisthrottle;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redisthrottle.testing.Server;
import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * The engine beside the limiter, compared by chance: histories of calls that spec/chance draws, each with the replies
 * of the limiter. {@code N=} and {@code SEED=} in the environment say how many, and which. What differs is shown as
 * the shortest history that still does.
 */
class ChanceTest {
  private static final long START = Windows.nanos(Instant.parse("2026-01-01T00:00:00Z"));
  private static final List<String> OF_LEASES =
      List.of("limited", "limit", "remaining", "retry_after_ms", "lease_ms", "wait_ms");

  @Test
  void theEngineDecidesAsTheLimiterDoes(@TempDir Path folder) throws IOException, InterruptedException {
    Path said = folder.resolve("said");
    ProcessBuilder limiter = new ProcessBuilder("go", "run", "./spec/chance");
    limiter.directory(Server.ROOT.toFile()).redirectError(said.toFile());
    limiter.environment().putIfAbsent("N", "3000");
    Process process = limiter.start();
    int histories = 0;
    try (BufferedReader in = process.inputReader();
        BufferedWriter out = process.outputWriter()) {
      List<String> history = new ArrayList<>();
      for (String line = in.readLine(); line != null; line = in.readLine()) {
        if (!line.isEmpty()) {
          history.add(line);
          continue;
        }
        out.write(played(history) + "\n");
        out.flush();
        history.clear();
        histories++;
      }
    }
    assertEquals(0, process.waitFor(), Files.readString(said));
    assertTrue(histories > 0, "no history came");
  }

  /** Returns what differs between the engine and a history, or "ok". */
  private static String played(List<String> history) {
    Engine engine = new Engine(new HashMap<>());
    long now = START;
    for (int i = 0; i < history.size(); i++) {
      String step = history.get(i);
      if (!step.startsWith("> ")) {
        now += Long.parseLong(step.replace("us", "")) * 1000;
        continue;
      }
      // Clients drop when to retry what was let through.
      String want = history.get(++i).replaceAll("\\[0 (\\S+) (\\S+) \\S+ ", "[0 $1 $2 -1 ");
      String got;
      try {
        got = reply(engine, step.substring(2), now);
      } catch (RuntimeException e) {
        got = e.toString().contains("WRONGTYPE") ? "(error) WRONGTYPE" : e.toString().replaceAll("\\s+", " ");
      }
      if (!got.equals(want)) {
        return step.substring(2) + ": want " + want + ", got " + got;
      }
    }
    return "ok";
  }

  /** Makes a call, and returns the reply as transcripts show it. */
  private static String reply(Engine engine, String words, long now) {
    Call call = Transcripts.call(new ArrayDeque<>(Arrays.asList(words.split(" "))));
    Result result = engine.decide(call, now);
    Map<String, Long> fields = Transcripts.reply(call, result);
    List<String> names = new ArrayList<>(Transcripts.ORDER.subList(0, call.several() ? 11 : 10));
    if (call.verb() == Call.Verb.BAN) {
      return String.valueOf(result.lasts().toMillis());
    }
    if (call.verb() == Call.Verb.RELEASE || call.verb() == Call.Verb.RESET) {
      return String.valueOf(-result.granted());
    }
    if (call.verb() == Call.Verb.SETTLE) {
      names.set(0, "settled");
    } else if (call.verb() == Call.Verb.LEASE || call.verb() == Call.Verb.RENEW) {
      names = OF_LEASES;
    }
    String shown = String.join(" ", names.stream().map(name -> name + "=" + fields.get(name)).toList());
    return shown + (call.hasEach() ? " each=[" + Transcripts.each(result) + "]" : "");
  }
}
