package io.github.redisthrottle;

import java.util.ArrayList;
import java.util.List;
import java.util.Objects;

/** Calls as commands in words. */
final class Words {
  private Words() {}

  static List<String> of(Call call) {
    List<String> words = new ArrayList<>();
    words.add(call.command());
    if (call.several()) {
      several(call, words);
    } else {
      Key key = call.keys().get(0);
      words.add(key.name());
      switch (call.verb()) {
        case RESET -> {
          return words;
        }
        case DENIED -> {
          words.add(String.valueOf(call.cost()));
          return words;
        }
        case BAN -> {
          words.add(wait(Objects.requireNonNull(call.ban()), "ban"));
          return words;
        }
        case RELEASE -> {
          add(words, "ID", call.id());
          return words;
        }
        case LEASE -> {
          add(words, "SLOTS", key.slots());
          add(words, "TTL", wait(Objects.requireNonNull(key.ttl()), "ttl"));
          add(words, "ID", call.id());
        }
        case RENEW -> {
          add(words, "ID", call.id());
          add(words, "TTL", wait(Objects.requireNonNull(key.ttl()), "ttl"));
        }
        default -> {
          limits(call, key, words);
          options(call, words);
        }
      }
      line(call, words);
    }
    words.add("COMPACT");
    if (call.hasEach()) {
      words.add("EACH");
    }
    return words;
  }

  private static void several(Call call, List<String> words) {
    List<Key> keys = call.keys();
    words.add(String.valueOf(keys.size()));
    keys.forEach(key -> words.add(key.name()));
    // One group without NEXT is that of every key.
    boolean same = keys.stream().allMatch(key -> !key.leased() && key.limits().equals(keys.get(0).limits()));
    for (int i = 0; i < (same ? 1 : keys.size()); i++) {
      Key key = keys.get(i);
      if (i > 0) {
        words.add("NEXT");
      }
      if (!key.leased()) {
        limits(call, key, words);
      } else if (call.verb() == Call.Verb.SETTLE) {
        words.add("SLOTS");
      } else {
        add(words, "SLOTS", key.slots());
        add(words, "TTL", wait(Objects.requireNonNull(key.ttl()), "ttl"));
      }
    }
    if (call.any()) {
      words.add("ANY");
    }
    if (!call.id().isEmpty()) {
      add(words, "ID", call.id());
    }
    if (call.verb() != Call.Verb.SETTLE) {
      options(call, words);
    }
  }

  private static void limits(Call call, Key key, List<String> words) {
    for (Limit limit : key.limits()) {
      words.addAll((call.verb() == Call.Verb.REFUND ? limit.withoutSpare() : limit).words());
    }
  }

  private static void options(Call call, List<String> words) {
    if (call.cost() != 1) {
      add(words, "COST", call.cost());
    }
    if (call.charge() != null) {
      words.add(call.charge().word);
    }
    if (call.ban() != null) {
      add(words, "BAN", wait(call.ban(), "ban"));
    }
    if (call.banAfter() != null) {
      add(words, "AFTER", call.banAfter());
    }
    if (call.verb() == Call.Verb.LIMIT && call.maxWait() != null) {
      add(words, "MAXWAIT", wait(call.maxWait(), "maxWait"));
    }
  }

  private static void line(Call call, List<String> words) {
    if (!call.waits()) {
      return;
    }
    java.time.Duration maxWait = Objects.requireNonNull(call.maxWait());
    boolean forever = maxWait.compareTo(Durations.LONGEST_WAIT) >= 0;
    add(words, "TIMEOUT", forever ? "0ms" : wait(maxWait, "maxWait"));
    if (!call.group().isEmpty()) {
      add(words, "GROUP", call.group());
    }
    if (call.weight() != 1) {
      add(words, "WEIGHT", call.weight());
    }
    if (call.priority() != 0) {
      add(words, "PRIORITY", call.priority());
    }
  }

  private static String wait(java.time.Duration duration, String what) {
    return Durations.word(Durations.wholeMillis(duration, what));
  }

  private static void add(List<String> words, String word, Object value) {
    words.add(word);
    words.add(String.valueOf(value));
  }
}
