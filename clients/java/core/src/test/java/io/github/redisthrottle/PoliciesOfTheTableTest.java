package io.github.redisthrottle;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.github.redisthrottle.http.HeaderFields;
import io.github.redisthrottle.testing.Server;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** Runs spec/clients/policies.json, which holds policies in every language to the same rules. */
class PoliciesOfTheTableTest {
  private static JsonNode table;

  @BeforeAll
  static void read() throws IOException {
    table = new ObjectMapper().readTree(Server.ROOT.resolve("spec/clients/policies.json").toFile());
  }

  private static Stream<JsonNode> all(JsonNode list) {
    assertFalse(list.isEmpty(), "the table is empty");
    return StreamSupport.stream(list.spliterator(), false);
  }

  private static Stream<DynamicTest> named(String section, String title, Consumer<JsonNode> test) {
    return all(table.get(section)).map(one -> DynamicTest.dynamicTest("\"" + one.get(title).asText() + "\"", () -> test.accept(one)));
  }

  private static Map<String, String> hash(JsonNode given) {
    Map<String, String> hash = new HashMap<>();
    given.properties().forEach(field -> hash.put(field.getKey(), field.getValue().asText()));
    return hash;
  }

  @Test
  void names() {
    all(table.at("/names/good")).forEach(name -> assertEquals(name.asText(), PolicyField.name(name.asText())));
    Limit limit = Limit.rate(1, Duration.ofSeconds(1));
    all(table.at("/names/bad")).forEach(name -> assertThrows(IllegalArgumentException.class, () -> Limits.policy(name.asText(), limit), name.asText()));
  }

  @TestFactory
  Stream<DynamicTest> values() {
    return named("values", "value", PoliciesOfTheTableTest::isRead);
  }

  private static void isRead(JsonNode one) {
    String text = one.get("value").asText();
    if (one.has("error")) {
      String message = assertThrows(IllegalArgumentException.class, () -> PolicyValue.parse("api", "api", text)).getMessage();
      assertTrue(message.contains(one.get("error").asText()), message);
      return;
    }
    PolicyValue value = PolicyValue.parse("api", "api", text);
    assertEquals(one.path("none").asBoolean(), value.isNone());
    assertLimits(one.path("limits"), value.limits);
    assertEquals(texts(one.path("names")), names(value.limits));
    assertEquals(one.has("ban") ? Durations.parse(one.get("ban").asText(), "ban") : null, value.ban);
    assertEquals(after(one), value.banAfter);
  }

  private static String after(JsonNode one) {
    Call call = Call.limit("k", Limit.rate(1, Duration.ofSeconds(1)));
    return one.has("ban_after") ? call.banAfter(one.get("ban_after").asText()).banAfter() : null;
  }

  private static void assertLimits(JsonNode want, List<Limit> got) {
    List<Limit> limits = StreamSupport.stream(want.spliterator(), false).map(CallsOfTheTableTest::limit).toList();
    assertEquals(limits, got);
    assertEquals(limits.stream().map(limit -> limit.name() + " " + limit.unit()).toList(), got.stream().map(limit -> limit.name() + " " + limit.unit()).toList());
  }

  private static List<String> texts(JsonNode list) {
    return StreamSupport.stream(list.spliterator(), false).map(JsonNode::asText).toList();
  }

  private static List<String> names(List<Limit> limits) {
    return IntStream.range(0, limits.size()).mapToObj(rule -> HeaderFields.name(limits, rule)).toList();
  }

  @TestFactory
  Stream<DynamicTest> fields() {
    return named("fields", "field", PoliciesOfTheTableTest::isField);
  }

  private static void isField(JsonNode one) {
    String text = one.get("field").asText();
    if (one.has("error")) {
      assertThrows(IllegalArgumentException.class, () -> PolicyField.parse(text));
      return;
    }
    PolicyField field = PolicyField.parse(text);
    assertEquals(one.get("name").asText(), field.name());
    assertEquals(one.path("key").asText(null), field.key());
    assertEquals(one.path("prefix").asText(null), field.prefix());
  }

  @Test
  void choices() {
    PolicyTable policies = new PolicyTable("h", (level, line) -> {});
    policies.read(hash(table.at("/choices/hash")));
    for (JsonNode one : table.at("/choices/of")) {
      PolicyValue found = policies.lookup().find(one.get("name").asText(), one.get("key").asText());
      assertEquals(one.get("field").asText(null), found == null ? null : found.field, one.toString());
    }
  }

  @TestFactory
  Stream<DynamicTest> calls() {
    return named("calls", "name", PoliciesOfTheTableTest::isChanged);
  }

  private static void isChanged(JsonNode one) {
    List<String> lines = new ArrayList<>();
    AtomicReference<Call> passed = new AtomicReference<>();
    Decider next =
        call -> {
          passed.set(call);
          State.Draft draft = State.of(call.key());
          draft.limited = one.at("/next/limited").asBoolean();
          draft.keyIndex = one.at("/next/key").asInt();
          draft.key = call.keyNames().get(draft.keyIndex);
          draft.rule = one.at("/next/rule").asInt();
          draft.limit = one.at("/next/limit").asLong();
          return CompletableFuture.completedFuture(draft.done());
        };
    Policies.Options options = Policies.Options.DEFAULT.log((level, line) -> lines.add(line));
    try (Policies policies = Policies.of(next, () -> hash(one.get("hash")), options)) {
      policies.begin();
      Server.await("the hash is read", () -> !policies.isReading());
      Call asked = call(one.get("call"));
      Result result = Stages.await(() -> policies.decide(asked));
      Stages.await(() -> policies.decide(asked)); // says nothing again
      assertPassed(one.get("passes_on"), passed.get());
      if (one.has("result")) {
        JsonNode want = one.get("result");
        assertEquals(want.get("limited").asBoolean(), result.limited());
        assertEquals(want.path("by").asText("server"), result.by().name().toLowerCase(Locale.ROOT));
        assertEquals(want.path("key").asInt(), result.keyIndex());
        assertEquals(asked.keyNames().get(result.keyIndex()), result.key());
        assertEquals(want.path("rule").asInt(), result.rule());
        assertEquals(want.path("limit").asLong(), result.limit());
        assertEquals(want.path("granted").asLong(), result.granted());
      }
      if (one.has("names")) {
        List<List<String>> names = StreamSupport.stream(one.get("names").spliterator(), false).map(PoliciesOfTheTableTest::texts).toList();
        assertEquals(names, result.inForce(asked.limits()).stream().map(PoliciesOfTheTableTest::names).toList());
      }
    }
    List<String> said = lines.stream().filter(line -> !line.matches("throttle:policies: \\d policy|throttle:policies: \\d policies")).toList();
    assertEquals(one.get("logs").isEmpty() ? 0 : 1, said.size(), said.toString());
    texts(one.get("logs")).forEach(part -> assertTrue(said.get(0).contains(part), said.get(0)));
  }

  private static Call call(JsonNode given) {
    Call call = CallsOfTheTableTest.call(given.deepCopy());
    List<Key> keys = new ArrayList<>();
    for (int i = 0; i < call.keys().size(); i++) {
      Key key = call.keys().get(i);
      String policy = given.at("/keys/" + i).path("policy").asText("");
      boolean isSlots = key.limits().isEmpty() && given.get("verb").asText().equals("settle");
      keys.add(policy.isEmpty() ? (isSlots ? new Key(key.name(), List.of(), 0, null, true) : key) : Key.of(key.name(), Limits.policy(policy, key.limits())));
    }
    return call.withKeys(keys);
  }

  private static void assertPassed(JsonNode want, Call got) {
    if (want.isNull()) {
      assertNull(got);
      return;
    }
    Call call = call(want);
    List<String> words = Words.of(got.checked());
    List<String> wanted = Words.of(call);
    // A call on several keys stays one when a policy lets all but one of them pass.
    assertEquals(got.several() && !call.several() ? Words.of(Call.many(call.verb(), call.keys())) : wanted, words);
    for (int i = 0; i < call.keys().size(); i++) {
      assertLimits(want.at("/keys/" + i).path("limits"), got.keys().get(i).limits());
    }
  }

  @TestFactory
  Stream<DynamicTest> reads() {
    return Stream.of(true, false)
        .flatMap(inRedis -> all(table.get("reads")).map(one -> DynamicTest.dynamicTest(one.get("name").asText() + " " + inRedis, () -> isReadAgain(one, inRedis))));
  }

  private static void isReadAgain(JsonNode one, boolean inRedis) {
    AtomicReference<Map<String, String>> hash = new AtomicReference<>();
    AtomicLong now = new AtomicLong();
    List<String> lines = new ArrayList<>();
    HashOfTest redis = new HashOfTest(hash::get);
    Policies.Source source =
        () -> {
          if (hash.get() == null) {
            throw new IOException("the file is gone");
          }
          return hash.get();
        };
    PolicyReader reader = inRedis ? PolicyReader.of(redis, HashOfTest.KEY, now::get) : PolicyReader.of(source, now::get);
    PolicyTable policies = new PolicyTable(HashOfTest.KEY, (level, line) -> lines.add(line));
    for (JsonNode step : one.get("steps")) {
      hash.set(step.get("hash").isNull() ? null : hash((ObjectNode) step.get("hash")));
      now.addAndGet(1_000_000_000);
      lines.clear();
      try {
        Map<String, String> read = reader.read().toCompletableFuture().join();
        if (read != null) {
          policies.read(read);
          reader.taken(read);
        }
      } catch (CompletionException e) {
        policies.failed(Errors.unwrapped(e));
      }
      for (JsonNode counts : step.get("counts")) {
        PolicyValue found = policies.lookup().find(counts.get("name").asText(), counts.get("key").asText());
        assertEquals(counts.get("value").asText(null), found == null ? null : found.text, step.toString());
      }
      List<String> said = texts(step.get("logs"));
      assertEquals(said.size(), lines.size(), () -> lines + " at " + step);
      said.forEach(line -> assertTrue(lines.stream().anyMatch(got -> got.contains(line)), () -> line + " in " + lines));
    }
  }
}
