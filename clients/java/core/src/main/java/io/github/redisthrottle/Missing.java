package io.github.redisthrottle;

import io.github.redisthrottle.connection.ErrorReply;
import java.util.Locale;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * What servers, managed services and proxies say of a command that is not there for this client. Nothing was run then.
 * The table spec/clients/missing.json has their answers.
 */
final class Missing {
  private static final Pattern MISSING =
      Pattern.compile(
          "^(ERR )?(unknown (sub)?command|unsupported command|command is not available|"
              + "(handle \\w+, )?command '?[\\w.|]+'? (is )?not (support|allowed|available))",
          Pattern.CASE_INSENSITIVE);

  private static final Pattern RIGHT = Pattern.compile("^NOPERM .* run the '([^']+)' command", Pattern.CASE_INSENSITIVE);

  private Missing() {}

  /** Whether a reply says that the server does not know the command, or that the user may not run it. */
  static boolean is(Object reply) {
    return reply instanceof ErrorReply error && (MISSING.matcher(error.text()).find() || right(error).isPresent());
  }

  /** Returns the right that a reply says the user lacks, as rules of ACL SETUSER have it, such as function|load. */
  static Optional<String> right(ErrorReply reply) {
    Matcher found = RIGHT.matcher(reply.text());
    return found.find() ? Optional.of(found.group(1).toLowerCase(Locale.ROOT)) : Optional.empty();
  }
}
