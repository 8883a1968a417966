package io.github.redisthrottle;

import java.time.Duration;
import java.time.ZoneId;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;

/** What a field of the hash of policies says, once it was read. */
final class PolicyValue {
  private static final Set<String> KINDS = Set.of("RATE", "WINDOW", "FIXED");
  private static final Set<String> OPTIONS = Set.of("BURST", "OFFSET", "TZ", "NAME"); // with a value after them
  private static final Set<String> OF_THE_CODE = Set.of("TAKE", "USED", "SPARE", "UNIT");
  private static final Call ANY = Call.limit("", Limit.rate(1, Duration.ofSeconds(1)));

  final String field;
  final String text;
  final List<Limit> limits; // none if everything passes
  final @Nullable Duration ban; // null without one
  final @Nullable String banAfter; // null without it
  final boolean reserves; // all limits are rates
  final boolean shadows; // one of them is a rehearsal
  final Optional<Result.Applied> applied;
  private final String name;
  private final Set<String> told = ConcurrentHashMap.newKeySet();

  private PolicyValue(String name, String field, String text, List<Limit> limits, @Nullable Duration ban, @Nullable String banAfter) {
    this.name = name;
    this.field = field;
    this.text = text;
    this.limits = limits;
    this.ban = ban;
    this.banAfter = banAfter;
    this.reserves = limits.stream().allMatch(limit -> limit.kind() == Limit.Kind.RATE);
    this.shadows = limits.stream().anyMatch(Limit::isShadow);
    this.applied = Optional.of(new Result.Applied(name, field, limits));
  }

  /** Reads the value of a field, or says in an {@link IllegalArgumentException} what is wrong with it. */
  static PolicyValue parse(String name, String field, String text) {
    List<String> words = text.isBlank() ? List.of() : List.of(text.strip().split("\\s+"));
    if (words.isEmpty()) {
      throw new IllegalArgumentException("it is empty: give limits, such as RATE 60/m, or NONE");
    }
    if (words.get(0).equalsIgnoreCase("NONE")) {
      if (words.size() > 1) {
        throw new IllegalArgumentException("NONE stands alone");
      }
      return new PolicyValue(name, field, text, List.of(), null, null);
    }
    int end = end(words);
    List<Limit> limits = new ArrayList<>();
    for (int from = 0; from < end; ) {
      int to = next(words, from, end);
      limits.add(one(words.subList(from, to)).inPolicy(name));
      from = to;
    }
    if (limits.isEmpty()) {
      throw new IllegalArgumentException("BAN comes behind the limits");
    }
    Call bans = bans(words.subList(end, words.size()));
    return new PolicyValue(name, field, text, Limits.checked(limits), bans.ban(), bans.banAfter());
  }

  boolean isNone() {
    return limits.isEmpty();
  }

  /** Returns where the limits end, and BAN or AFTER begins. */
  private static int end(List<String> words) {
    for (int i = 0; i < words.size(); i++) {
      String word = word(words, i);
      if (word.equals("BAN") || word.equals("AFTER")) {
        return i;
      }
      i += OPTIONS.contains(word) ? 1 : 0;
    }
    return words.size();
  }

  /** Returns where the limit after the one at {@code from} begins. */
  private static int next(List<String> words, int from, int end) {
    for (int i = from + 1; i < end; i++) {
      String word = word(words, i);
      if (KINDS.contains(word)) {
        return i;
      }
      i += OPTIONS.contains(word) ? 1 : 0;
    }
    return end;
  }

  private static Limit one(List<String> words) {
    String quoted = "\"" + String.join(" ", words) + "\": ";
    for (int i = 2; i < words.size(); i++) {
      String word = word(words, i);
      if (OF_THE_CODE.contains(word)) {
        throw new IllegalArgumentException(quoted + word + " is for the code to say");
      }
      i += OPTIONS.contains(word) ? 1 : 0;
    }
    try {
      Limit limit = Limits.one(words);
      if (!limit.name().isEmpty()) {
        PolicyField.name(limit.name());
      }
      if (!limit.zone().isEmpty() && (!ZoneId.getAvailableZoneIds().contains(limit.zone()) || limit.zone().startsWith("SystemV/"))) {
        throw new IllegalArgumentException("TZ: no time zone has the name \"" + limit.zone() + "\"");
      }
      return limit;
    } catch (IllegalArgumentException e) {
      throw new IllegalArgumentException(quoted + e.getMessage(), e);
    }
  }

  /** Returns a call with what BAN and AFTER say. */
  private static Call bans(List<String> words) {
    if (words.isEmpty()) {
      return ANY;
    }
    if (word(words, 0).equals("AFTER")) {
      throw new IllegalArgumentException("AFTER comes behind BAN");
    }
    boolean after = words.size() > 2 && word(words, 2).equals("AFTER");
    if (words.size() != (after ? 4 : 2)) {
      throw new IllegalArgumentException("\"" + String.join(" ", words) + "\": expected BAN and a time, and AFTER and a number in a time behind it");
    }
    Duration ban = Durations.parse(words.get(1), "BAN");
    if (ban.toMillis() < 1) {
      throw new IllegalArgumentException("BAN: \"" + words.get(1) + "\" is shorter than a millisecond");
    }
    if (ban.compareTo(Durations.LONGEST_WAIT) > 0) {
      throw new IllegalArgumentException("BAN: \"" + words.get(1) + "\" is longer than 100 years");
    }
    try {
      return after ? ANY.ban(ban).banAfter(words.get(3)) : ANY.ban(ban);
    } catch (IllegalArgumentException e) {
      throw new IllegalArgumentException("AFTER: " + e.getMessage(), e);
    }
  }

  private static String word(List<String> words, int i) {
    return words.get(i).toUpperCase(Locale.ROOT);
  }

  /**
   * Returns the limits with what the call says of its own: see {@link Limit#hasOwn}. Null if there is another number of
   * them, and the call does not say the same of all of its limits.
   */
  @Nullable List<Limit> in(List<Limit> own) {
    boolean hasOwn = false;
    boolean same = true;
    for (int i = 0; i < own.size(); i++) {
      hasOwn |= own.get(i).hasOwn();
      same &= own.get(i).hasOwnOf(own.get(0));
    }
    if (!hasOwn) {
      return limits;
    }
    boolean each = own.size() == limits.size();
    if (!each && !same) {
      return null;
    }
    List<Limit> charged = new ArrayList<>(limits.size());
    for (int i = 0; i < limits.size(); i++) {
      charged.add(limits.get(i).withOwnOf(own.get(each ? i : 0)));
    }
    return charged;
  }

  /** Returns that these limits counted. */
  Optional<Result.Applied> applied(List<Limit> counted) {
    return counted == limits ? applied : Optional.of(new Result.Applied(name, field, counted));
  }

  /** Returns whether something is to be told of it, which was not before. */
  boolean isNews(String what) {
    return told.add(what);
  }
}
