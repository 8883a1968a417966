package io.github.redisthrottle.http;

/** What becomes of a request that could not be decided. */
public enum Answer {
  /** It goes ahead without a limit. */
  ALLOW,
  /** It is turned away: status 503. */
  DENY,
  /** The error is thrown. */
  RAISE;

  /**
   * Reads one of a configuration: allow, deny or raise.
   *
   * @param option the option that an error is about
   */
  public static Answer of(String option, String word) {
    for (Answer answer : values()) {
      if (answer.name().toLowerCase(java.util.Locale.ROOT).equals(word)) {
        return answer;
      }
    }
    throw new IllegalArgumentException(option + " must be allow, deny or raise, not \"" + word + "\"");
  }
}
