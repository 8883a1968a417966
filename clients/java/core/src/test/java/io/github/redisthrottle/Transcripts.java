package io.github.redisthrottle;

import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.function.UnaryOperator;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Transcripts as in spec/: their calls as those of this package, and results as the server replies them. */
final class Transcripts {
  static final List<String> ORDER =
      List.of(
          "limited", "rule", "limit", "remaining", "retry_after_ms", "reset_after_ms", "next_after_ms", "granted",
          "wait_ms", "shadow", "key");

  private Transcripts() {}

  /** A line, and what comes after it in its example, is not for this process. */
  static final class NotHere extends RuntimeException {
    private static final long serialVersionUID = 1;

    NotHere(String line) {
      super(line);
    }
  }

  /** Returns a step of the clock, in ns. */
  static long length(String word) {
    Matcher us = Pattern.compile("([0-9.]+)us").matcher(word);
    return us.matches()
        ? Math.round(Double.parseDouble(us.group(1)) * 1000)
        : Durations.parse(word, "the clock").toNanos();
  }

  /** Reads a command as a call. */
  static Call call(Deque<String> words) {
    String command = words.remove();
    String single = command.equals("CL.MLIMIT") ? "CL.LIMIT" : command;
    Call.Verb verb =
        Arrays.stream(Call.Verb.values()).filter(one -> one.command.equals(single)).findFirst().orElse(null);
    boolean several = command.equals("CL.MLIMIT") || command.equals("CL.SETTLE");
    if (verb == null || verb == Call.Verb.WAIT) {
      throw new NotHere(command);
    }
    List<String> names = new ArrayList<>();
    for (int left = several ? Integer.parseInt(words.remove()) : 1; left > 0; left--) {
      names.add(words.remove());
    }
    if (verb == Call.Verb.RESET) {
      return Call.reset(names.get(0));
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
      Charge charge = Arrays.stream(Charge.values()).filter(one -> one.word.equals(word)).findFirst().orElseThrow();
      return call -> call.charge(charge);
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
    Key key = new Key(name, List.of(), slots, ttl, verb == Call.Verb.LEASE);
    return Call.one(verb, key).id(given.getOrDefault("ID", ""));
  }

  private static Key key(String name, List<String> words) {
    if (words.get(0).equals("SLOTS")) {
      boolean numbers = words.size() > 1;
      long count = numbers ? Long.parseLong(words.get(1)) : 0;
      return new Key(name, List.of(), count, numbers ? Durations.parse(words.get(3), "ttl") : null, true);
    }
    StringBuilder text = new StringBuilder();
    words.forEach(word -> text.append(List.of("RATE", "WINDOW", "FIXED").contains(word) ? "; " : " ").append(word));
    return Key.of(name, Limits.parse(text.toString()));
  }

  private static int rules(Call call, int keyIndex) {
    return call.keys().subList(0, keyIndex).stream().mapToInt(Key::rules).sum();
  }

  /** Returns a result as the server replies it. */
  static Map<String, Long> reply(Call call, Result result) {
    State state = result.state();
    // A settlement of slots alone has no rule.
    boolean none = call.verb() == Call.Verb.SETTLE && call.limits().stream().allMatch(List::isEmpty);
    Map<String, Long> reply = new HashMap<>();
    reply.put("limited", state.limited() ? 1L : 0);
    reply.put("settled", state.limited() ? 0L : 1);
    reply.put("rule", state.banned() || none ? 0L : rules(call, state.keyIndex()) + state.rule() + 1);
    reply.put("limit", state.limit());
    reply.put("remaining", state.remaining());
    reply.put("retry_after_ms", state.limited() ? state.retryAfterMs() : -1);
    reply.put("reset_after_ms", state.resetAfterMs());
    reply.put("next_after_ms", state.nextAfterMs());
    reply.put("granted", state.granted());
    reply.put("wait_ms", state.waitMs());
    Result.Place shadow = state.shadow();
    reply.put("shadow", shadow == null ? 0L : rules(call, shadow.keyIndex()) + shadow.rule() + 1);
    reply.put("key", none ? 0 : state.keyIndex() + 1L);
    reply.put("lease_ms", state.lastsMs());
    return reply;
  }

  /** Returns what a key holds, as the server replies it. */
  static Map<String, String> inspection(Inspection told) {
    List<String> limits = told.limits().stream().map(Transcripts::limit).toList();
    return Map.of(
        "kind", told.kind().name().toLowerCase(Locale.ROOT),
        "now_ms", String.valueOf(told.now().toEpochMilli()),
        "expires_at_ms", ms(told.expiresAt(), told.kind() == Inspection.Kind.NONE ? 0 : -1),
        "banned_until_ms", ms(told.bannedUntil(), 0),
        "held", String.valueOf(told.held()),
        "lapses_at_ms", ms(told.lapsesAt(), 0),
        "waiting", String.valueOf(told.waiting()),
        "limits", "[" + String.join(" ", limits) + "]");
  }

  private static String limit(HeldLimit one) {
    long unknown = one.used().equals(OptionalLong.of(0)) ? 0 : -1;
    return "kind=" + one.kind()
        + " period_ms=" + one.period().map(Duration::toMillis).orElse(-1L)
        + " used=" + one.used().orElse(-1)
        + " entries=" + one.entries()
        + " next_at_ms=" + ms(one.nextAt(), unknown)
        + " reset_at_ms=" + ms(one.resetAt(), unknown)
        + " queue_ms=" + one.queue().toMillis();
  }

  private static String ms(Optional<Instant> at, long otherwise) {
    return String.valueOf(at.map(Instant::toEpochMilli).orElse(otherwise));
  }

  /** Returns each of a result, as the server replies it. */
  static String each(Result result) {
    StringBuilder text = new StringBuilder();
    for (Result one : result.each()) {
      State state = one.state();
      long retry = state.limited() ? state.retryAfterMs() : -1;
      text.append(text.isEmpty() ? "[" : " [").append(state.limited() ? 1 : 0);
      text.append(" " + state.limit() + " " + state.remaining() + " " + retry + " " + state.resetAfterMs() + "]");
    }
    return text.toString();
  }
}
