package io.github.redisthrottle.connection;

import java.util.List;

/**
 * A command that is to be sent once.
 *
 * @param words its name and arguments
 * @param key the key that decides which server of a cluster gets it; null is any
 */
public record Command(List<String> words, String key) {
  /** Copies the words. */
  public Command {
    words = List.copyOf(words);
  }

  /** Returns a question whether the server that has a key is alive. */
  public static Command ping(String key) {
    return new Command(List.of("PING"), key);
  }

  /** Says nothing of the arguments: keys do not belong into logs. */
  @Override
  public String toString() {
    return words.get(0);
  }
}
