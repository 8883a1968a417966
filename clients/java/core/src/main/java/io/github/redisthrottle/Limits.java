package io.github.redisthrottle;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.function.BiFunction;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/** Limits as text, such as a line of a configuration file, and limits with the name of a policy. */
public final class Limits {
  private static final int MOST = 8;
  private static final Pattern TOKEN = Pattern.compile("[ \\t\\r]*(?:([;\\n])|\"((?:[^\"\\\\]|\\\\.)*)\"|([^ \\t\\r\\n;\"][^ \\t\\r\\n;]*))");

  private static final Pattern NUMBER = Pattern.compile("0|-?[1-9][0-9]{0,18}");

  /** The words that have a value after them. */
  private static final Map<String, BiFunction<Limit, String, Limit>> OPTIONS =
      Map.of(
          "BURST", (limit, word) -> limit.burst(units(word)),
          "TAKE", (limit, word) -> limit.take(units(word)),
          "USED", (limit, word) -> limit.used(units(word)),
          "SPARE", (limit, word) -> limit.spare(units(word)),
          "OFFSET", (limit, word) -> limit.offset(Durations.parse(word, "OFFSET")),
          "TZ", Limit::zone,
          "NAME", Limit::named,
          "UNIT", Limit::unit);

  private Limits() {}

  /**
   * Reads limits as CL.LIMIT takes them, separated by semicolons or line breaks:
   *
   * <pre>RATE 5/s BURST 10; FIXED 1000/mo TZ Europe/Berlin NAME monthly</pre>
   *
   * <p>NAME and UNIT are {@link Limit#named} and {@link Limit#unit}; a name with spaces or semicolons is put into
   * quotation marks.
   *
   * @return one limit to eight
   * @throws IllegalArgumentException names the word that is wrong, and what would be right
   */
  public static List<Limit> parse(String text) {
    List<Limit> limits = new ArrayList<>();
    for (List<String> words : split(text)) {
      try {
        limits.add(one(words));
      } catch (IllegalArgumentException e) {
        throw new IllegalArgumentException("limit " + (limits.size() + 1) + ": " + e.getMessage(), e);
      }
    }
    return checked(limits);
  }

  /**
   * Names the policy of limits. They are the default: {@link Policies} looks up whether others count, for all keys or
   * for some.
   *
   * <pre>{@code limiter.limit("user:42", Limits.policy("api", rate(100, ofMinutes(1))))}</pre>
   *
   * <p>Limits without {@link Limit#named} are called as the policy in header fields and metrics, of several with their
   * number: api-1, api-2.
   *
   * @param name 1 to 64 of A-Z, a-z, 0-9, dot, underscore and hyphen
   * @return the limits, one to eight, in this order
   */
  public static Limit[] policy(String name, Limit... limits) {
    return policy(name, List.of(limits)).toArray(Limit[]::new);
  }

  /** As {@link #policy(String, Limit...)}. */
  public static List<Limit> policy(String name, List<Limit> limits) {
    String checked = PolicyField.name(name);
    return checked(limits.stream().map(limit -> limit.inPolicy(checked)).toList());
  }

  /** Writes limits as {@link #parse} reads them. */
  public static String format(List<Limit> limits) {
    return limits.stream()
        .map(limit -> limit + named(" NAME ", limit.name()) + named(" UNIT ", limit.unit()))
        .collect(Collectors.joining("; "));
  }

  /** Returns the limits of a key, or refuses a number of them that no key has. */
  static List<Limit> checked(List<Limit> limits) {
    if (limits.isEmpty()) {
      throw new IllegalArgumentException("limits: there must be at least one, such as RATE 5/s");
    }
    if (limits.size() > MOST) {
      throw new IllegalArgumentException("limits: there are " + limits.size() + ", and a key has at most " + MOST);
    }
    String policy = limits.get(0).policyName();
    for (Limit limit : limits) {
      if (!limit.policyName().equals(policy)) {
        throw new IllegalArgumentException("limits: those of a key have one policy, or none");
      }
    }
    return List.copyOf(limits);
  }

  private static String named(String word, String name) {
    if (name.isEmpty()) {
      return "";
    }
    boolean plain = name.chars().noneMatch(c -> " ;\"\\".indexOf(c) >= 0);
    return word + (plain ? name : '"' + name.replace("\\", "\\\\").replace("\"", "\\\"") + '"');
  }

  private static List<List<String>> split(String text) {
    List<List<String>> limits = new ArrayList<>();
    List<String> words = new ArrayList<>();
    String trimmed = text.stripTrailing();
    Matcher token = TOKEN.matcher(trimmed);
    for (int at = 0; at < trimmed.length(); at = token.end()) {
      token.region(at, trimmed.length());
      if (!token.lookingAt()) {
        throw new IllegalArgumentException("limits: a quotation mark without an end");
      }
      if (token.group(2) != null) {
        words.add(token.group(2).replaceAll("\\\\(.)", "$1"));
      } else if (token.group(3) != null) {
        words.add(token.group(3));
      } else {
        limits.add(words);
        words = new ArrayList<>();
      }
    }
    limits.add(words);
    limits.removeIf(List::isEmpty);
    return limits;
  }

  static Limit one(List<String> words) {
    Limit.Kind kind = kind(words.get(0));
    if (words.size() == 1) {
      throw new IllegalArgumentException(kind + " takes count/period, such as 5/s or 100/30m");
    }
    int slash = words.get(1).indexOf('/');
    if (slash < 0) {
      throw new IllegalArgumentException(kind + ": \"" + words.get(1) + "\" is not count/period, such as 5/s or 100/30m");
    }
    Length period = Length.parse(words.get(1).substring(slash + 1), kind.name(), kind == Limit.Kind.FIXED);
    Limit limit = Limit.of(kind, units(words.get(1).substring(0, slash)), period);
    Set<String> seen = new HashSet<>();
    for (int i = 2; i < words.size(); i++) {
      String word = words.get(i).toUpperCase(Locale.ROOT);
      if (!seen.add(word)) {
        throw new IllegalArgumentException(word + " is there twice");
      }
      if (word.equals("FIRST") || word.equals("SHADOW")) {
        limit = word.equals("FIRST") ? limit.first() : limit.shadow();
        continue;
      }
      BiFunction<Limit, String, Limit> option = OPTIONS.get(word);
      if (option == null) {
        throw new IllegalArgumentException(
            "\"" + words.get(i) + "\": expected BURST, FIRST, OFFSET, TZ, TAKE, USED, SPARE, SHADOW, NAME or UNIT, or a semicolon before"
                + " the next limit");
      }
      if (++i == words.size()) {
        throw new IllegalArgumentException(word + " needs a value after it");
      }
      limit = option.apply(limit, words.get(i));
    }
    return limit;
  }

  private static Limit.Kind kind(String word) {
    try {
      return Limit.Kind.valueOf(word.toUpperCase(Locale.ROOT));
    } catch (IllegalArgumentException e) {
      throw new IllegalArgumentException("\"" + word + "\": expected RATE, WINDOW or FIXED", e);
    }
  }

  /** Reads a number as the server does, which takes no + and no 0 before it. */
  static long units(String word) {
    try {
      if (NUMBER.matcher(word).matches()) {
        return Long.parseLong(word);
      }
      throw new NumberFormatException(word);
    } catch (NumberFormatException e) {
      throw new IllegalArgumentException("\"" + word + "\" is not an integer from 0 to 9223372036854775807", e);
    }
  }
}
