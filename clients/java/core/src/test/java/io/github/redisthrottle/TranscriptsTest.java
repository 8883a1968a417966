package io.github.redisthrottle;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redisthrottle.testing.Server;
import java.io.IOException;
import java.nio.file.Files;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.UnaryOperator;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.DynamicContainer;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** The transcripts of spec/, decided in this process: by what a guard with local limits and a limiter for tests decide with. */
class TranscriptsTest {
  /** Values in keys, lines of callers, redis-cell's command and the words of errors are the server's alone. */
  private static final List<String> FILES =
      List.of("rate", "window", "calendar", "limits", "kept", "refund", "bans", "shadows", "keys", "slots", "settling", "leases", "zero", "denials");

  /** The zones of Java have laws of their own version. */
  private static final List<String> OTHERWISE = List.of("Clocks are those of the laws of 2026.");

  private static final List<String> ORDER =
      List.of("limited", "rule", "limit", "remaining", "retry_after_ms", "reset_after_ms", "next_after_ms", "granted", "wait_ms", "shadow", "key");

  private static final AtomicInteger HERE = new AtomicInteger();

  /** A line, and what comes after it in its example, is not for this process. */
  private static final class NotHere extends RuntimeException {
    private static final long serialVersionUID = 1;

    NotHere(String line) {
      super(line);
    }
  }

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
      all.add(DynamicContainer.dynamicContainer(file, examples.entrySet().stream().map(one -> DynamicTest.dynamicTest(one.getKey(), () -> holds(one.getValue())))));
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
        now += (line.charAt(0) == '+' ? 1 : -1) * length(line.substring(1));
      } else if (line.startsWith("> ")) {
        String expected = lines.get(++i);
        if (expected.startsWith("(error)")) {
          continue;
        }
        try {
          Call call = call(new ArrayDeque<>(Arrays.asList(line.substring(2).split("\\s+"))));
          compare(call, engine.decide(call, now), expected, line);
        } catch (NotHere e) {
          return;
        }
        HERE.incrementAndGet();
      } else if (!line.startsWith("= ")) {
        return;
      }
    }
  }

  private static long length(String word) {
    Matcher us = Pattern.compile("([0-9.]+)us").matcher(word);
    return us.matches() ? Math.round(Double.parseDouble(us.group(1)) * 1000) : Durations.parse(word, "the clock").toNanos();
  }

  private static Call call(Deque<String> words) {
    String command = words.remove();
    Call.Verb verb = Arrays.stream(Call.Verb.values()).filter(one -> one.command.equals(command)).findFirst().orElse(command.equals("CL.MLIMIT") ? Call.Verb.LIMIT : null);
    boolean several = command.equals("CL.MLIMIT") || command.equals("CL.SETTLE");
    if (verb == null || verb == Call.Verb.WAIT || verb == Call.Verb.RESET) {
      throw new NotHere(command);
    }
    List<String> names = new ArrayList<>();
    for (int left = several ? Integer.parseInt(words.remove()) : 1; left > 0; left--) {
      names.add(words.remove());
    }
    if (verb == Call.Verb.BAN) {
      return Call.ban(names.get(0), banFor(words.remove()));
    }
    if (verb == Call.Verb.LEASE || verb == Call.Verb.RENEW || verb == Call.Verb.RELEASE) {
      return lease(verb, names.get(0), words);
    }
    UnaryOperator<Call> options = call -> call;
    List<List<String>> groups = new ArrayList<>(List.of(new ArrayList<>()));
    while (!words.isEmpty()) {
      String word = words.remove();
      UnaryOperator<Call> option = option(word, words);
      if (word.equals("NEXT")) {
        groups.add(new ArrayList<>());
      } else if (option == null) {
        groups.get(groups.size() - 1).add(word);
      } else {
        UnaryOperator<Call> before = options;
        options = call -> option.apply(before.apply(call));
      }
    }
    List<Key> keys = new ArrayList<>();
    for (int i = 0; i < names.size(); i++) {
      keys.add(key(names.get(i), groups.get(groups.size() == 1 ? 0 : i)));
    }
    return options.apply(several ? Call.many(verb, keys) : Call.one(verb, keys.get(0)));
  }

  private static UnaryOperator<Call> option(String word, Deque<String> words) {
    if (word.equals("UPTO") || word.equals("STRICT") || word.equals("FORCE")) {
      return call -> call.charge(Arrays.stream(Charge.values()).filter(charge -> charge.word.equals(word)).findFirst().orElseThrow());
    }
    Map<String, UnaryOperator<Call>> flags = Map.of("ANY", Call::withAny, "EACH", Call::each, "COMPACT", call -> call);
    if (flags.containsKey(word) || !List.of("COST", "BAN", "AFTER", "MAXWAIT", "ID").contains(word)) {
      return flags.get(word);
    }
    String value = words.remove();
    return switch (word) {
      case "COST" -> call -> call.cost(Long.parseLong(value));
      case "BAN" -> call -> call.ban(banFor(value));
      case "AFTER" -> call -> call.banAfter(value);
      case "MAXWAIT" -> call -> call.maxWait(Durations.parse(value, "maxWait"));
      default -> call -> call.id(value);
    };
  }

  private static Duration banFor(String word) {
    return word.equals("0") ? Duration.ZERO : Durations.parse(word, "ban");
  }

  private static Call lease(Call.Verb verb, String name, Deque<String> words) {
    Map<String, String> given = new HashMap<>();
    while (!words.isEmpty()) {
      String word = words.remove();
      if (!List.of("SLOTS", "TTL", "ID", "COMPACT").contains(word)) {
        throw new NotHere(word);
      }
      if (!word.equals("COMPACT")) {
        given.put(word, words.remove());
      }
    }
    Duration ttl = given.containsKey("TTL") ? Durations.parse(given.get("TTL"), "ttl") : null;
    long slots = Long.parseLong(given.getOrDefault("SLOTS", "0"));
    return Call.one(verb, new Key(name, List.of(), slots, ttl, verb == Call.Verb.LEASE)).id(given.getOrDefault("ID", ""));
  }

  private static Key key(String name, List<String> words) {
    if (words.get(0).equals("SLOTS")) {
      boolean numbers = words.size() > 1;
      return new Key(name, List.of(), numbers ? Long.parseLong(words.get(1)) : 0, numbers ? Durations.parse(words.get(3), "ttl") : null, true);
    }
    StringBuilder text = new StringBuilder();
    words.forEach(word -> text.append(List.of("RATE", "WINDOW", "FIXED").contains(word) ? "; " : " ").append(word));
    return Key.of(name, Limits.parse(text.toString()));
  }

  private static int rules(Call call, int keyIndex) {
    return call.keys().subList(0, keyIndex).stream().mapToInt(Key::rules).sum();
  }

  /** Returns a result as the server replies it. */
  private static Map<String, Long> reply(Call call, Result result) {
    State state = result.state();
    boolean none = state.banned() || (call.verb() == Call.Verb.SETTLE && state.limit() == 0);
    Map<String, Long> reply = new HashMap<>();
    reply.put("limited", state.limited() ? 1L : 0);
    reply.put("settled", state.limited() ? 0L : 1);
    reply.put("rule", none ? 0L : rules(call, state.keyIndex()) + state.rule() + 1);
    reply.put("limit", state.limit());
    reply.put("remaining", state.remaining());
    reply.put("retry_after_ms", state.limited() ? state.retryAfterMs() : -1);
    reply.put("reset_after_ms", state.resetAfterMs());
    reply.put("next_after_ms", state.nextAfterMs());
    reply.put("granted", state.granted());
    reply.put("wait_ms", state.waitMs());
    reply.put("shadow", state.shadow() == null ? 0L : rules(call, state.shadow().keyIndex()) + state.shadow().rule() + 1);
    reply.put("key", state.keyIndex() + 1L);
    reply.put("lease_ms", state.lastsMs());
    return reply;
  }

  private static String each(Result result) {
    StringBuilder text = new StringBuilder();
    for (Result one : result.each()) {
      State state = one.state();
      long retry = state.limited() ? state.retryAfterMs() : -1;
      text.append(text.isEmpty() ? "[" : " [").append(state.limited() ? 1 : 0);
      text.append(" " + state.limit() + " " + state.remaining() + " " + retry + " " + state.resetAfterMs() + "]");
    }
    return text.toString();
  }

  private static void compare(Call call, Result result, String expected, String line) {
    Map<String, Long> reply = reply(call, result);
    if (call.verb() == Call.Verb.BAN) {
      assertEquals(expected, String.valueOf(result.lasts().toMillis()), line);
    } else if (call.verb() == Call.Verb.RELEASE) {
      assertEquals(expected, String.valueOf(-result.granted()), line);
    } else if (expected.matches("-?[0-9]+ .*")) {
      if (call.verb() == Call.Verb.LEASE || call.verb() == Call.Verb.RENEW) {
        throw new NotHere("a lease as integers");
      }
      List<String> names = new ArrayList<>(ORDER.subList(0, call.several() ? 11 : 10));
      names.set(0, call.verb() == Call.Verb.SETTLE ? "settled" : "limited");
      String numbers = String.join(" ", names.stream().map(name -> reply.get(name).toString()).toList());
      // Clients drop when to retry what was let through.
      String told = expected.replaceAll("\\[0 (\\S+) (\\S+) \\S+ ", "[0 $1 $2 -1 ");
      assertEquals(told, (numbers + " " + each(result)).strip(), line);
    } else {
      Matcher field = Pattern.compile("(\\w+)=(\\[.*\\]|\\S+)").matcher(expected);
      while (field.find()) {
        String name = field.group(1);
        assertEquals(field.group(2), name.equals("each") ? "[" + each(result) + "]" : String.valueOf(reply.get(name)), line + ": " + name);
      }
    }
  }
}
