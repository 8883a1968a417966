package io.github.redisthrottle;

import java.time.Duration;
import java.time.Instant;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import org.jspecify.annotations.Nullable;

/** The reply to CL.INSPECT, read by the names of its fields. */
final class InspectionReply {
  private final Map<Object, Object> fields = new HashMap<>();

  /** Takes names and values by turns, as in RESP2, or pairs of them, as clients have a map of RESP3. */
  private InspectionReply(@Nullable Object reply) {
    if (!(reply instanceof List<?> list)) {
      throw odd();
    }
    boolean pairs = !list.isEmpty() && list.get(0) instanceof List<?>;
    for (int i = 0; i < list.size(); i += pairs ? 1 : 2) {
      List<?> pair = pairs ? pair(list.get(i)) : list.subList(i, Math.min(i + 2, list.size()));
      if (pair.size() != 2) {
        throw odd();
      }
      fields.put(pair.get(0), pair.get(1));
    }
  }

  private static List<?> pair(@Nullable Object of) {
    return of instanceof List<?> list ? list : List.of();
  }

  static Inspection read(@Nullable Object reply) {
    InspectionReply of = new InspectionReply(reply);
    if (!(of.fields.get("limits") instanceof List<?> limits)) {
      throw odd();
    }
    return new Inspection(
        of.word("kind", Inspection.Kind.class),
        Instant.ofEpochMilli(of.integer("now_ms")),
        of.integer("bytes"),
        of.instant("expires_at_ms"),
        of.instant("banned_until_ms"),
        of.integer("held"),
        of.instant("lapses_at_ms"),
        of.integer("waiting"),
        limits.stream().map(InspectionReply::limit).toList());
  }

  private static HeldLimit limit(@Nullable Object entry) {
    InspectionReply of = new InspectionReply(entry);
    long periodMs = of.integer("period_ms");
    long used = of.integer("used");
    return new HeldLimit(
        of.word("kind", HeldLimit.Kind.class),
        periodMs < 0 ? Optional.empty() : Optional.of(Duration.ofMillis(periodMs)),
        used < 0 ? OptionalLong.empty() : OptionalLong.of(used),
        of.integer("entries"),
        of.instant("next_at_ms"),
        of.instant("reset_at_ms"),
        Duration.ofMillis(of.integer("queue_ms")));
  }

  private long integer(String name) {
    if (fields.get(name) instanceof Long n) {
      return n;
    }
    throw odd();
  }

  private Optional<Instant> instant(String name) {
    long ms = integer(name);
    return ms > 0 ? Optional.of(Instant.ofEpochMilli(ms)) : Optional.empty();
  }

  private <T extends Enum<T>> T word(String name, Class<T> words) {
    try {
      return Enum.valueOf(words, String.valueOf(fields.get(name)).toUpperCase(Locale.ROOT));
    } catch (IllegalArgumentException e) {
      throw odd();
    }
  }

  private static MistakeException odd() {
    return new MistakeException("CL.INSPECT: the reply is not what a key holds", null);
  }
}
