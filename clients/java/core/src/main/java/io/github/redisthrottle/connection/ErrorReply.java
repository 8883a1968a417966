package io.github.redisthrottle.connection;

/**
 * A reply that is an error.
 *
 * @param text what the server says
 */
public record ErrorReply(String text) {
  /** Returns what kind of error it is, such as READONLY: the first word, or the second after the ERR that Redis 7.0 puts before what a script has met. */
  public String code() {
    String[] words = text.split(" ", 3);
    return words.length > 1 && words[0].equals("ERR") ? words[1] : words[0];
  }
}
