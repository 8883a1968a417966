package io.github.redisthrottle;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.github.redisthrottle.testing.Server;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** Compares what calls take with spec/commands.json: a word that is added there is known here, or a test fails. */
class GrammarTest {
  private static final Limit RATE = Limit.rate(5, Duration.ofMinutes(1));
  private static final Limit WINDOW = Limit.window(5, Duration.ofMinutes(1));
  private static final Duration SECOND = Duration.ofSeconds(1);
  private static final Slots SLOTS = Slots.of(1, SECOND);

  private static final Map<String, UnaryOperator<Call>> OPTIONS =
      Map.ofEntries(
          Map.entry("COST", call -> call.cost(2)),
          Map.entry("UPTO", call -> call.charge(Charge.UP_TO)),
          Map.entry("STRICT", call -> call.charge(Charge.STRICT)),
          Map.entry("FORCE", call -> call.charge(Charge.FORCE)),
          Map.entry("ANY", Call::withAny),
          Map.entry("MAXWAIT", call -> call.maxWait(SECOND)),
          Map.entry("TIMEOUT", call -> call.maxWait(SECOND)),
          Map.entry("BAN", call -> call.ban(SECOND)),
          Map.entry("AFTER", call -> call.ban(SECOND).banAfter("3/1m")),
          Map.entry("GROUP", call -> call.group("g")),
          Map.entry("WEIGHT", call -> call.group("g").weight(2)),
          Map.entry("PRIORITY", call -> call.priority(3)),
          Map.entry("ID", call -> call.id("a")),
          Map.entry("EACH", Call::each));

  /** Words that calls say by themselves or in their keys, and that of CL.LEASES, which the client does not send. */
  private static final Set<String> WITHOUT_OPTION = Set.of("NEXT", "COMPACT", "COUNT", "SLOTS", "TTL");

  private static final Map<String, Supplier<Call>> CALLS =
      Map.of(
          "CL.LIMIT", () -> Call.limit("k", RATE),
          "CL.MLIMIT", () -> Call.limitAll(Keys.of("k", RATE).and("s", SLOTS)),
          "CL.PEEK", () -> Call.peek("k", RATE),
          "CL.REFUND", () -> Call.refund("k", RATE),
          "CL.WAIT", () -> Call.waitFor("k", WINDOW),
          "CL.LEASE", () -> Call.lease("s", SLOTS).id("a").maxWait(SECOND),
          "CL.RENEW", () -> Call.renew("s", SECOND).id("a"),
          "CL.RELEASE", () -> Call.release("s").id("a"),
          "CL.SETTLE", () -> Call.settle(Keys.of("k", RATE)).id("a"));

  @TestFactory
  Stream<DynamicTest> aCallTakesWhatItsCommandTakes() throws IOException {
    List<DynamicTest> tests = new ArrayList<>();
    for (JsonNode command : new ObjectMapper().readTree(Server.ROOT.resolve("spec/commands.json").toFile()).get("commands")) {
      String name = command.get("command").asText();
      if (!CALLS.containsKey(name)) {
        continue;
      }
      Set<String> words = new HashSet<>();
      command.path("options").forEach(word -> words.add(word.asText()));
      for (String word : words) {
        tests.add(DynamicTest.dynamicTest(name + " " + word, () -> assertTrue(OPTIONS.containsKey(word) || WITHOUT_OPTION.contains(word), "no option for " + word)));
      }
      boolean waits = words.contains("MAXWAIT") || words.contains("TIMEOUT"); // one option says both
      OPTIONS.forEach(
          (word, option) -> {
            if (word.equals("ANY") && name.equals("CL.LIMIT")) {
              return; // limitAny alone says it, which is CL.MLIMIT
            }
            boolean taken = words.contains(word) || (waits && (word.equals("MAXWAIT") || word.equals("TIMEOUT")));
            tests.add(DynamicTest.dynamicTest(name + (taken ? " takes " : " refuses ") + word, () -> tries(name, word, option, taken)));
          });
    }
    return tests.stream();
  }

  private static final Map<String, Limit> LIMITS =
      Map.ofEntries(
          Map.entry("RATE", RATE),
          Map.entry("WINDOW", WINDOW),
          Map.entry("FIXED", Limit.fixed(5, Duration.ofDays(1))),
          Map.entry("BURST", RATE.burst(9)),
          Map.entry("FIRST", Limit.fixed(5, Duration.ofDays(1)).first()),
          Map.entry("OFFSET", Limit.fixed(5, Duration.ofDays(1)).offset(SECOND)),
          Map.entry("TZ", Limit.fixed(5, Duration.ofDays(1)).zone("UTC")),
          Map.entry("TAKE", RATE.take(2)),
          Map.entry("USED", RATE.take(2).used(1)),
          Map.entry("SPARE", RATE.spare(1)),
          Map.entry("SHADOW", RATE.shadow()));

  @TestFactory
  Stream<DynamicTest> aLimitTakesWhatAnyCommandTakes() throws IOException {
    JsonNode grammar = new ObjectMapper().readTree(Server.ROOT.resolve("spec/commands.json").toFile());
    Set<String> words = new HashSet<>();
    grammar.get("words").forEach(row -> row.path("own").forEach(word -> words.add(word.asText())));
    for (JsonNode command : grammar.get("commands")) {
      command.path("limits").forEach(word -> words.add(word.asText()));
      command.path("terms").forEach(word -> words.add(word.asText()));
    }
    return words.stream()
        .map(word -> DynamicTest.dynamicTest(word, () -> assertTrue(isKnown(word), "limits have no " + word)));
  }

  private static boolean isKnown(String word) {
    return LIMITS.containsKey(word) && LIMITS.get(word).words().contains(word);
  }

  private static void tries(String name, String word, UnaryOperator<Call> option, boolean taken) {
    Call base = name.equals("CL.MLIMIT") && !word.equals("ID") ? Call.limitAll(Keys.of("k", RATE).and("l", RATE)) : CALLS.get(name).get();
    if (taken) {
      assertDoesNotThrow(() -> option.apply(base).checked());
    } else {
      assertThrows(IllegalArgumentException.class, () -> option.apply(base).checked());
    }
  }
}
