package io.github.redisthrottle;

import io.github.redisthrottle.connection.Command;
import io.github.redisthrottle.connection.Connection;
import io.github.redisthrottle.connection.ErrorReply;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * Reads the hash of policies: whole, or of one with the field @version that field alone, unless it has changed or a
 * minute has passed. One reading at a time.
 */
final class PolicyReader {
  private static final String VERSION = "@version";
  private static final long WHOLE_NS = TimeUnit.SECONDS.toNanos(60);

  private final Hash hash;
  private final LongSupplier clock;
  private volatile @Nullable String version; // null without one
  private volatile long whole; // when the hash was read whole

  private interface Hash {
    CompletionStage<Map<String, String>> whole();

    CompletionStage<@Nullable String> version();
  }

  private PolicyReader(Hash hash, LongSupplier clock) {
    this.hash = hash;
    this.clock = clock;
  }

  static PolicyReader of(Connection connection, String key, LongSupplier clock) {
    return new PolicyReader(new InRedis(connection, key), clock);
  }

  static PolicyReader of(Policies.Source source, LongSupplier clock) {
    return new PolicyReader(new Elsewhere(source), clock);
  }

  /** Completes with the hash, or with null if it has not changed. */
  CompletionStage<@Nullable Map<String, String>> read() {
    String seen = version;
    if (seen == null || clock.getAsLong() - whole >= WHOLE_NS) {
      return readWhole();
    }
    return Stages.chain(hash.version(), now -> seen.equals(now) ? CompletableFuture.completedFuture(null) : readWhole());
  }

  private CompletionStage<@Nullable Map<String, String>> readWhole() {
    return Stages.map(hash.whole(), all -> all);
  }

  /** Says that a hash, read whole, counts from now on. One that came too late does not. */
  void taken(Map<String, String> all) {
    version = all.get(VERSION);
    whole = clock.getAsLong();
  }

  private record InRedis(Connection connection, String key) implements Hash {
    @Override
    public CompletionStage<Map<String, String>> whole() {
      return Stages.map(send("HGETALL", key), reply -> pairs(reply));
    }

    @Override
    public CompletionStage<@Nullable String> version() {
      return Stages.map(send("HGET", key, VERSION), reply -> reply == null ? null : reply.toString());
    }

    private CompletionStage<@Nullable Object> send(String... words) {
      return Stages.map(
          connection.send(new Command(List.of(words), key)),
          reply -> {
            if (reply instanceof ErrorReply error) {
              String rights = error.code().equals("NOPERM") ? ": its user needs +hgetall +hget %R~" + key : "";
              throw new MistakeException(Errors.of(words[0], error).getMessage() + rights, null);
            }
            return reply;
          });
    }

    /** Returns fields and values one after the other, or in pairs (RESP3), as a map. */
    private static Map<String, String> pairs(@Nullable Object reply) {
      Map<String, String> pairs = new HashMap<>();
      List<?> words = (List<?>) Objects.requireNonNull(reply);
      for (int i = 0; i < words.size(); i++) {
        if (words.get(i) instanceof List<?> pair) {
          pairs.put(String.valueOf(pair.get(0)), String.valueOf(pair.get(1)));
        } else {
          pairs.put(String.valueOf(words.get(i)), String.valueOf(words.get(++i)));
        }
      }
      return pairs;
    }
  }

  private record Elsewhere(Policies.Source source) implements Hash {
    @Override
    public CompletionStage<Map<String, String>> whole() {
      try {
        return CompletableFuture.completedFuture(source.read());
      } catch (Exception e) {
        return CompletableFuture.failedFuture(e);
      }
    }

    @Override
    public CompletionStage<@Nullable String> version() {
      return Stages.map(whole(), all -> all.get(VERSION));
    }
  }
}
