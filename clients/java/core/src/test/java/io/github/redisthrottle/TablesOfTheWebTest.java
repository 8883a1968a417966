package io.github.redisthrottle;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.github.redisthrottle.http.Answer;
import io.github.redisthrottle.http.ClientAddress;
import io.github.redisthrottle.http.HeaderFields;
import io.github.redisthrottle.http.Networks;
import io.github.redisthrottle.http.Problem;
import io.github.redisthrottle.http.Undecided;
import io.github.redisthrottle.testing.Server;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.function.Executable;

/** Runs the tables of spec/clients that say what a web service makes of addresses, results and errors. */
class TablesOfTheWebTest {
  private static JsonNode table(String name) throws IOException {
    return new ObjectMapper().readTree(Server.ROOT.resolve("spec/clients/" + name).toFile());
  }

  private static List<String> texts(JsonNode list) {
    List<String> texts = new ArrayList<>();
    list.forEach(text -> texts.add(text.asText()));
    return texts;
  }

  @TestFactory
  Stream<DynamicTest> addresses() throws IOException {
    JsonNode table = table("addresses.json");
    ClientAddress trusting = ClientAddress.behind(texts(table.get("trusted")));
    List<DynamicTest> tests = new ArrayList<>();
    for (JsonNode one : table.get("keys")) {
      ClientAddress address = ClientAddress.ofPeer().ipv6(one.path("ipv6").asInt(64));
      tests.add(DynamicTest.dynamicTest(one.toString(), () -> assertEquals(one.get("key").asText(), address.key(one.get("address").asText(), List.of()))));
    }
    for (JsonNode one : table.get("clients")) {
      tests.add(
          DynamicTest.dynamicTest(
              one.get("rule").asText(),
              () -> assertEquals(one.get("client").asText(), trusting.key(one.path("peer").asText(), texts(one.path("forwarded"))))));
    }
    return tests.stream();
  }

  @TestFactory
  Stream<DynamicTest> networks() throws IOException {
    JsonNode table = table("networks.json");
    List<DynamicTest> tests = new ArrayList<>();
    for (JsonNode one : table.get("requests")) {
      List<String> networks = texts(one.has("networks") ? one.get("networks") : table.get("networks"));
      ClientAddress address = ClientAddress.behind(texts(one.has("trusted") ? one.get("trusted") : table.get("trusted")));
      boolean isFrom = address.isFrom(Networks.of(networks), one.get("peer").asText(), texts(one.path("forwarded")));
      tests.add(DynamicTest.dynamicTest(one.get("rule").asText(), () -> assertEquals(one.get("skipped").asBoolean(), isFrom)));
    }
    return tests.stream();
  }

  @Test
  void whatIsNoNetworkIsRefused() throws IOException {
    for (String entry : texts(table("networks.json").get("refused"))) {
      List<String> entries = List.of("127.0.0.1", entry);
      assertRefused("networks: \"" + entry + "\" is no address and no network", () -> Networks.of(entries));
      assertRefused("trusted: \"" + entry + "\" is no address and no network", () -> ClientAddress.behind(entries));
    }
    assertRefused("networks: \"10.1.2.3/8\" is no address and no network: write 10.0.0.0/8, or the address 10.1.2.3", () -> Networks.of(List.of("10.1.2.3/8")));
  }

  private static void assertRefused(String message, Executable made) {
    String said = assertThrows(IllegalArgumentException.class, made, message).getMessage();
    assertTrue(String.valueOf(said).startsWith(message), said);
  }

  @TestFactory
  Stream<DynamicTest> fields() throws IOException {
    List<DynamicTest> tests = new ArrayList<>();
    for (JsonNode one : table("fields.json").get("cases")) {
      tests.add(DynamicTest.dynamicTest(one.get("rule").asText(), () -> says(one)));
    }
    return tests.stream();
  }

  @TestFactory
  Stream<DynamicTest> together() throws IOException {
    List<DynamicTest> tests = new ArrayList<>();
    for (JsonNode one : table("fields.json").get("together")) {
      tests.add(DynamicTest.dynamicTest(one.get("rule").asText(), () -> isNamedApart(one)));
    }
    return tests.stream();
  }

  private static void isNamedApart(JsonNode one) {
    Set<String> taken = new HashSet<>();
    one.get("taken").forEach(name -> taken.add(name.asText()));
    List<List<Limit>> keys = new ArrayList<>();
    for (JsonNode key : one.get("keys")) {
      List<Limit> limits = new ArrayList<>();
      key.forEach(limit -> limits.add(CallsOfTheTableTest.limit(limit)));
      keys.add(limits);
    }
    List<List<String>> names = new ArrayList<>();
    for (List<Limit> limits : HeaderFields.apart(keys, taken)) {
      names.add(IntStream.range(0, limits.size()).mapToObj(rule -> HeaderFields.name(limits, rule)).toList());
    }
    List<List<String>> want = new ArrayList<>();
    one.get("names").forEach(key -> want.add(StreamSupport.stream(key.spliterator(), false).map(JsonNode::asText).toList()));
    assertEquals(want, names);
  }

  private static void says(JsonNode one) {
    List<Limit> limits = new ArrayList<>();
    one.get("limits").forEach(limit -> limits.add(CallsOfTheTableTest.limit(limit)));
    Result result = result(one.get("result"));
    Map<String, String> want = new LinkedHashMap<>();
    one.get("fields").properties().forEach(field -> want.put(field.getKey(), field.getValue().asText()));
    assertEquals(want, HeaderFields.of(List.of(limits), result, HeaderFields.XRateLimit.SECONDS));
  }

  private static Result result(JsonNode given) {
    State.Draft draft = State.of("k");
    draft.limited = given.path("limited").asBoolean();
    draft.banned = given.path("banned").asBoolean();
    draft.keyIndex = given.path("key").asInt();
    draft.rule = given.path("rule").asInt();
    draft.limit = given.path("limit").asLong();
    draft.remaining = given.path("remaining").asLong();
    draft.retryAfterMs = given.path("retry_after_ms").asLong();
    draft.resetAfterMs = given.path("reset_after_ms").asLong();
    draft.nextAfterMs = given.path("next_after_ms").asLong();
    draft.granted = given.path("granted").asLong();
    List<Result> each = new ArrayList<>();
    given.path("each").forEach(one -> each.add(result(one)));
    draft.each = each;
    return draft.done();
  }

  @Test
  void whatAHeaderFieldCannotCarryIsRefused() throws IOException {
    for (JsonNode one : table("fields.json").get("refused")) {
      assertThrows(
          IllegalArgumentException.class, () -> CallsOfTheTableTest.limit(one.get("limits").get(0)), one.get("why").asText());
    }
  }

  @Test
  void whatBecomesOfARequestThatCouldNotBeDecided() throws IOException {
    JsonNode table = table("undecided.json");
    JsonNode defaults = table.get("defaults");
    Undecided answers =
        new Undecided(
            Answer.of("outage", defaults.get("outage").asText()),
            Answer.of("overload", defaults.get("overload").asText()),
            Answer.of("mistake", defaults.get("mistake").asText()));
    assertEquals(Undecided.DEFAULTS, answers);
    assertEquals(Answer.ALLOW, answers.to(new OutageException("", null)));
    assertEquals(Answer.DENY, answers.to(new OverloadException("", null)));
    assertEquals(Answer.RAISE, answers.to(new IllegalArgumentException("")));
    for (String word : texts(table.get("refused"))) {
      assertThrows(IllegalArgumentException.class, () -> Answer.of("outage", word), word);
    }
  }

  @Test
  void errorsHaveTheCodesOfAllLanguages() throws IOException {
    JsonNode codes = table("undecided.json").get("codes");
    State.Draft draft = State.of("k");
    draft.limited = true;
    Map<String, ThrottleException> errors =
        Map.of(
            "outage", new OutageException("", null),
            "overload", new OverloadException("", null),
            "mistake", new MistakeException("", null),
            "limited", new LimitedException((Result.Denied) draft.done()),
            "lease lost", new LeaseLostException("", null),
            "interrupted", new CallInterruptedException("", null));
    assertEquals(codes.size(), errors.size());
    errors.forEach((name, error) -> assertEquals(codes.get(name).asText(), error.code(), name));
  }

  @Test
  void theProblemNamesTheLimitThatDenied() {
    List<List<Limit>> limits = List.of(Limits.parse("RATE 5/s; FIXED 10/d NAME daily"));
    State.Draft draft = State.of("k");
    draft.limited = true;
    draft.rule = 1;
    assertEquals(
        "{\"type\": \"https://iana.org/assignments/http-problem-types#quota-exceeded\", \"title\": \"Quota Exceeded\", \"status\": 429,"
            + " \"violated-policies\": [\"daily\"]}\n",
        Problem.of(limits, draft.done()).json());
    draft.banned = true;
    assertEquals("Abnormal Usage Detected", Problem.of(limits, draft.done()).title());
  }
}
