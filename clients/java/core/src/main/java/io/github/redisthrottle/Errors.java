package io.github.redisthrottle;

import io.github.redisthrottle.connection.ErrorReply;
import java.util.Set;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;

/** Error replies and causes, told apart as a service needs it. */
final class Errors {
  /** The codes of replies of a server that will decide the same call later, or that another server decides. */
  private static final Set<String> LATER =
      Set.of("BUSY", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "MISCONF", "NOREPLICAS", "OOM", "READONLY", "TRYAGAIN", "UNBLOCKED");

  private Errors() {}

  static ThrottleException of(String command, ErrorReply reply) {
    // A server without the module repeats the arguments, and keys do not belong into logs.
    String text = command + ": " + reply.text().split(", with args beginning with", 2)[0];
    if (reply.code().equals("CROSSSLOT")) {
      text += ": in a cluster the keys of a call need the same hash tag, such as {42}:requests and {42}:tokens";
    }
    boolean later = LATER.contains(reply.code()) || reply.text().contains("max number of clients");
    return later ? new OutageException(text, null, false) : new MistakeException(text, null);
  }

  /** Returns what a stage ended with, without its wrappers. */
  static Throwable unwrapped(Throwable error) {
    Throwable at = error;
    while ((at instanceof CompletionException || at instanceof ExecutionException) && at.getCause() != null) {
      at = at.getCause();
    }
    return at;
  }

  /** Returns whether a call that gives something back is to be repeated after this error. */
  static boolean mayRepeat(Throwable error) {
    return error instanceof OutageException || error instanceof OverloadException || error instanceof CallInterruptedException;
  }

  /** Returns whether the server may have run the call that ended with this error, or may run it yet. */
  static boolean mayHaveRun(Throwable error) {
    if (error instanceof OutageException outage) {
      return outage.sent();
    }
    if (error instanceof OverloadException overload) {
      return overload.sent();
    }
    return !(error instanceof MistakeException || error instanceof IllegalArgumentException);
  }
}
