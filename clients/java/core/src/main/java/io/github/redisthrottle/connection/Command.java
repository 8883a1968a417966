package io.github.redisthrottle.connection;

import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * A command that is to be sent once.
 *
 * @param words its name and arguments
 * @param key the key that decides which server of a cluster gets it; null is any
 */
public record Command(List<String> words, @Nullable String key) {
  /** Copies the words. */
  public Command {
    words = List.copyOf(words);
  }

  /** Returns a question whether the server that has a key is alive. */
  public static Command ping(@Nullable String key) {
    return new Command(List.of("PING"), key);
  }

  /** Says nothing of the arguments: keys do not belong into logs. */
  @Override
  public String toString() {
    return words.get(0);
  }
}
