package io.github.redisthrottle.connection;

import java.util.Set;

/**
 * A reply that is an error.
 *
 * @param text what the server says
 */
public record ErrorReply(String text) {
  private static final Set<String> ELSEWHERE = Set.of("READONLY", "MASTERDOWN", "LOADING");

  /**
   * Returns what kind of error it is, such as READONLY: the first word, or the second after the ERR that Redis 7.0 puts
   * before what a script has met.
   */
  public String code() {
    String[] words = text.split(" ", 3);
    return words.length > 1 && words[0].equals("ERR") ? words[1] : words[0];
  }

  /**
   * Returns whether the server is no master any more, or not yet, so that its connection is to be closed: the address
   * may lead to another one.
   */
  public boolean isNoMaster() {
    return ELSEWHERE.contains(code());
  }
}
