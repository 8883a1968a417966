package io.github.redisthrottle;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.github.redisthrottle.testing.Clients;
import io.github.redisthrottle.testing.MadeUp;
import io.github.redisthrottle.testing.Server;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** Runs spec/clients/calls.json, which holds the clients of every language to the same commands and results. */
class CallsOfTheTableTest {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static JsonNode table;
  private static MadeUp madeUp;
  private static Server server;

  @BeforeAll
  static void start() throws IOException {
    table = JSON.readTree(Server.ROOT.resolve("spec/clients/calls.json").toFile());
    madeUp = new MadeUp();
    server = Server.start();
  }

  @AfterAll
  static void stop() throws IOException {
    madeUp.close();
    server.close();
  }

  @Test
  void aVerbTakesWhatItTakesInEveryLanguage() {
    assertEquals(Call.Verb.values().length, table.get("takes").size());
    for (Call.Verb verb : Call.Verb.values()) {
      Set<String> want = new TreeSet<>();
      table.get("takes").get(verb.word()).forEach(name -> want.add(name.asText().toUpperCase(java.util.Locale.ROOT)));
      Set<String> got = Call.TAKES.getOrDefault(verb, Set.of()).stream().map(Enum::name).collect(Collectors.toCollection(TreeSet::new));
      assertEquals(want, got, verb.word());
    }
  }

  @TestFactory
  Stream<DynamicTest> cases() {
    return Stream.of(Clients.values())
        .flatMap(client -> named("cases").map(one -> DynamicTest.dynamicTest(client + ": " + one.get("name").asText(), () -> decides(client, one))));
  }

  @TestFactory
  Stream<DynamicTest> sessions() {
    return Stream.of(Clients.values())
        .flatMap(client -> named("sessions").map(one -> DynamicTest.dynamicTest(client + ": " + one.get("name").asText(), () -> goesOn(client, one))));
  }

  @TestFactory
  Stream<DynamicTest> sessionsInThisProcess() {
    return named("sessions").map(one -> DynamicTest.dynamicTest(one.get("name").asText(), () -> goesOnHere(one)));
  }

  private static void goesOnHere(JsonNode session) {
    FakeLimiter fake = new FakeLimiter();
    int number = 0;
    for (JsonNode step : session.get("steps")) {
      Call call = call(step.get("call"));
      CompletableFuture<Result> decided = fake.limiter().decide(call).toCompletableFuture();
      if (call.waits()) {
        fake.advance(call.maxWait());
      }
      requires(shown(decided.join()), step.get("result"), "step " + ++number);
    }
  }

  private static Stream<JsonNode> named(String what) {
    List<JsonNode> all = new ArrayList<>();
    table.get(what).forEach(all::add);
    assertFalse(all.isEmpty(), "the table has no " + what);
    return all.stream();
  }

  private static void decides(Clients client, JsonNode one) {
    madeUp.expect(one.get("exchanges"));
    madeUp.problems.clear();
    try (Limiter limiter = Limiter.over(Remote.over(client.patient(madeUp.port()), Commands.MODULE))) {
      if (one.has("error")) {
        RuntimeException error = assertThrows(RuntimeException.class, () -> limiter.ask(call(one.get("call"))));
        assertEquals(one.get("error").asText(), kind(error), () -> "kind of " + error);
        assertTrue(error.getMessage().contains(one.path("says").asText("")), error.getMessage());
        assertFalse(error.getMessage().contains("'" + one.at("/call/keys/0/name").asText() + "'"), "a key in an error");
      } else {
        assertEquals(one.get("result"), shown(limiter.ask(call(one.get("call")))));
      }
    }
    assertEquals(List.of(), madeUp.problems);
    assertEquals(0, madeUp.left(), "not everything was sent");
  }

  private static String kind(RuntimeException error) {
    if (error instanceof OutageException) {
      return "outage";
    }
    return error instanceof OverloadException ? "overload" : "mistake";
  }

  private static void goesOn(Clients client, JsonNode session) {
    try (Limiter limiter = Limiter.over(client.patient(server.port))) {
      limiter.reset(session.at("/steps/0/call/keys/0/name").asText());
      session
          .findValues("name")
          .forEach(name -> limiter.reset(name.asText()));
      int number = 0;
      for (JsonNode step : session.get("steps")) {
        requires(shown(limiter.ask(call(step.get("call")))), step.get("result"), "step " + ++number);
      }
    }
  }

  private static void requires(JsonNode got, JsonNode want, String where) {
    want.properties()
        .forEach(
            field -> {
              if (field.getKey().equals("each")) {
                for (int i = 0; i < field.getValue().size(); i++) {
                  requires(got.get("each").get(i), field.getValue().get(i), where);
                }
                return;
              }
              JsonNode value = got.path(field.getKey());
              String is = value.isMissingNode() ? (field.getValue().isBoolean() ? "false" : "0") : value.asText();
              assertEquals(field.getValue().asText(), is, where + ": " + field.getKey() + " in " + got);
            });
  }

  static Call call(JsonNode given) {
    JsonNode keys = given.get("keys");
    Call.Verb verb = Call.Verb.valueOf(given.get("verb").asText().toUpperCase(java.util.Locale.ROOT));
    List<Key> made = new ArrayList<>();
    keys.forEach(key -> made.add(key(key)));
    boolean several = verb == Call.Verb.SETTLE || (verb == Call.Verb.LIMIT && (keys.size() != 1 || given.has("any") || keys.get(0).has("ttl")));
    if (keys.get(0).has("slots") && !keys.get(0).has("ttl") && verb == Call.Verb.LIMIT) {
      throw new IllegalArgumentException("Slots cannot be made without a ttl");
    }
    Call call = several ? Call.many(verb, made) : Call.one(verb, made.get(0));
    call = given.path("any").asBoolean() ? call.withAny() : call;
    call = given.has("cost") ? call.cost(given.get("cost").asLong()) : call;
    call = given.has("upto") ? call.charge(Charge.UP_TO) : call;
    call = given.has("strict") ? call.charge(Charge.STRICT) : call;
    call = given.has("force") ? call.charge(Charge.FORCE) : call;
    call = given.has("ban") ? call.ban(duration(given.get("ban"))) : call;
    call = given.has("ban_after") ? call.banAfter(given.get("ban_after").asText()) : call;
    call = given.has("max_wait") ? call.maxWait(duration(given.get("max_wait"))) : call;
    call = given.has("group") ? call.group(given.get("group").asText()) : call;
    call = given.has("weight") ? call.weight(given.get("weight").asInt()) : call;
    call = given.has("priority") ? call.priority(given.get("priority").asInt()) : call;
    call = given.has("id") ? call.id(given.get("id").asText()) : call;
    return given.path("each").asBoolean() ? call.each() : call;
  }

  private static Key key(JsonNode key) {
    List<Limit> limits = new ArrayList<>();
    key.path("limits").forEach(limit -> limits.add(limit(limit)));
    Duration ttl = key.has("ttl") ? duration(key.get("ttl")) : null;
    boolean leased = key.path("leased").asBoolean() || (key.has("slots") && ttl != null);
    return new Key(key.get("name").asText(), limits, key.path("slots").asLong(), ttl, leased);
  }

  static Limit limit(JsonNode given) {
    Limit.Kind kind = Limit.Kind.valueOf(given.get("kind").asText());
    Limit limit = Limit.of(kind, given.get("count").asLong(), Length.parse(given.get("period").asText(), "period", kind == Limit.Kind.FIXED));
    limit = given.has("burst") ? limit.burst(given.get("burst").asLong()) : limit;
    limit = given.path("first").asBoolean() ? limit.first() : limit;
    limit = given.has("offset") ? limit.offset(duration(given.get("offset"))) : limit;
    limit = given.has("zone") ? limit.zone(given.get("zone").asText()) : limit;
    limit = given.has("take") ? limit.take(given.get("take").asLong()) : limit;
    limit = given.has("used") ? limit.used(given.get("used").asLong()) : limit;
    limit = given.has("spare") ? limit.spare(given.get("spare").asLong()) : limit;
    limit = given.path("shadow").asBoolean() ? limit.shadow() : limit;
    limit = given.has("name") ? limit.named(given.get("name").asText()) : limit;
    return given.has("unit") ? limit.unit(given.get("unit").asText()) : limit;
  }

  private static Duration duration(JsonNode given) {
    String text = given.asText();
    return switch (text) {
      case "forever" -> Durations.LONGEST_WAIT;
      case "0" -> Duration.ZERO;
      default -> Durations.parse(text, "duration");
    };
  }

  /** Returns a result as the table has it, with what is 0, false or empty left out. */
  private static ObjectNode shown(Result result) {
    ObjectNode fields = JSON.createObjectNode();
    State state = result.state();
    put(fields, "limited", state.limited());
    put(fields, "banned", state.banned());
    put(fields, "shadowed", state.shadow() != null);
    put(fields, "key", state.keyIndex());
    put(fields, "rule", state.rule());
    put(fields, "shadow", state.shadow() == null ? 0 : state.shadow().rule());
    put(fields, "shadow_key", state.shadow() == null ? 0 : state.shadow().keyIndex());
    put(fields, "limit", state.limit());
    put(fields, "remaining", state.remaining());
    put(fields, "retry_after_ms", state.retryAfterMs());
    put(fields, "reset_after_ms", state.resetAfterMs());
    put(fields, "next_after_ms", state.nextAfterMs());
    put(fields, "granted", state.granted());
    put(fields, "wait_ms", state.waitMs());
    put(fields, "lasts_ms", state.lastsMs());
    if (!state.each().isEmpty()) {
      ArrayNode each = fields.putArray("each");
      state.each().forEach(one -> each.add(shown(one)));
    }
    // As it was read: an int and a long of the same value are not equal.
    try {
      return (ObjectNode) JSON.readTree(fields.toString());
    } catch (IOException e) {
      throw new IllegalStateException(e);
    }
  }

  private static void put(ObjectNode fields, String name, boolean value) {
    if (value) {
      fields.put(name, true);
    }
  }

  private static void put(ObjectNode fields, String name, long value) {
    if (value != 0) {
      fields.put(name, value);
    }
  }
}
