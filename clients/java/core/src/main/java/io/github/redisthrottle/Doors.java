package io.github.redisthrottle;

import io.github.redisthrottle.connection.Command;
import io.github.redisthrottle.connection.Connection;
import io.github.redisthrottle.connection.ErrorReply;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;

/**
 * How a call is sent to a server: as a command of the module, as a function of the library, or as a script. Each server
 * has a door of its own.
 *
 * <p>Nothing is asked beforehand. A server that lacks what it is sent says so, and nothing has happened then; so the
 * call itself is the question, and a server with the module costs no round trip more.
 */
final class Doors {
  private static final Logger LOG = System.getLogger("io.github.redisthrottle");

  /** The command that older versions of the module lack. */
  private static final String INSPECT = "CL.INSPECT";

  /** How many answers that a server lacks what it was sent a call takes. */
  private static final int TRIES = 5;

  /** How often somebody else may load a library while this process is about to. */
  private static final int ROUNDS = 3;

  /** The name of the library in functions/throttle.lua. */
  private static final String BY_HAND = "throttle";

  /** The version 99.99.99. What is no number up to it is no version. */
  private static final long NEWEST = 999_999;

  private static final String SLOWLY = ": calls are sent as scripts, which take longer";

  /**
   * How long functions or scripts are called before a server is asked again: its rights, or what is loaded there, may
   * have changed.
   */
  @SuppressWarnings("NonFinalStaticField") // tests do not wait
  static volatile Duration doorsLast = Duration.ofMinutes(5);

  /** The same for a replica, which may be promoted soon. */
  private static final Duration SOON = Duration.ofSeconds(1);

  private enum Way {
    MODULE,
    LIBRARY,
    SCRIPT
  }

  /** The way to a server that was found at some time. */
  private static final class Door {
    final Way way;
    final long sinceNs = System.nanoTime();
    final Duration lasts;

    /** The server has no command for scripts that only read, or the user may not run it. */
    volatile boolean plain;

    Door(Way way, Duration lasts) {
      this.way = way;
      this.lasts = lasts;
    }

    boolean isOver() {
      return way != Way.MODULE && System.nanoTime() - sinceNs > lasts.toNanos();
    }
  }

  private final Connection connection;
  private final Commands commands;
  private final Map<String, Door> doors = new ConcurrentHashMap<>();
  private final Map<String, Way> told = new ConcurrentHashMap<>();
  private final Map<String, String> lacks = new ConcurrentHashMap<>(); // the right to run the module's command, by server
  private final Map<String, CompletableFuture<Door>> questions = new ConcurrentHashMap<>();

  Doors(Connection connection, Commands commands) {
    this.connection = connection;
    this.commands = commands;
  }

  /** Sends a command that is answered at once. */
  CompletionStage<Object> send(List<String> words, String key) {
    // The library lacks CL.DENIED, and so does an older module, which says nothing of its other commands.
    boolean reports = words.get(0).equals(Call.Verb.DENIED.command);
    if (reports && isWithoutModule(key)) {
      return CompletableFuture.failedFuture(new MistakeException("the server has no throttle.so, which CL.DENIED needs", null));
    }
    boolean plain = reports || commands == Commands.MODULE || !words.get(0).startsWith("CL.");
    return plain ? connection.send(new Command(words, key)) : send(words, key, TRIES);
  }

  /**
   * Sends a command that waits for its turn, which takes the module, until its caller has left, or the server is silent
   * for so long.
   */
  CompletionStage<Object> sendWaiting(List<String> words, String key, CompletionStage<Void> left, Duration patience) {
    return connection.sendWaiting(new Command(words, key), left, patience);
  }

  /** Returns whether a server is known to have no module, or is not to be asked for it. */
  boolean isWithoutModule(String key) {
    if (commands == Commands.FUNCTIONS || doors.isEmpty()) {
      return commands == Commands.FUNCTIONS;
    }
    Door door = standing(connection.nodeOf(key));
    return door != null && door.way != Way.MODULE;
  }

  /** Returns whether a reply says that the server lacks the module, where there are other ways than it. */
  boolean lacksModule(Object reply) {
    return commands == Commands.AUTO && Missing.is(reply);
  }

  private CompletionStage<Object> send(List<String> words, String key, int left) {
    String server = connection.nodeOf(key);
    Door door = standing(server);
    if (left == 0) { // the key moves through a cluster, say: a whole script follows it by itself
      return connection.send(new Command(Library.asScript(words, true), key));
    }
    if (door != null && door.way != Way.MODULE) {
      CompletionStage<Object> sent = door.way == Way.LIBRARY ? connection.send(new Command(Library.asFunction(words), key)) : byHash(door, words, key);
      return Stages.chain(
          forgets(server, door, sent),
          reply -> {
            boolean gone = door.way == Way.LIBRARY ? says(reply, "Function not found") || Missing.is(reply) : says(reply, "NOSCRIPT");
            if (gone || Missing.is(reply)) {
              doors.remove(server, door); // the server may have anything now
            }
            return gone ? send(words, key, left - 1) : CompletableFuture.completedFuture(reply);
          });
    }
    if (commands == Commands.FUNCTIONS) {
      return Stages.chain(ask(server, key), found -> send(words, key, left - 1));
    }
    return Stages.chain(
        connection.send(new Command(words, key)),
        reply -> {
          if (Missing.is(reply)) {
            ErrorReply missing = (ErrorReply) reply;
            return words.get(0).equals(INSPECT) ? olderOr(words, key, left, missing) : otherwise(words, key, left, missing);
          }
          if (door == null) {
            found(server, new Door(Way.MODULE, doorsLast), "%s has the module: calls are sent as its commands");
          }
          return CompletableFuture.completedFuture(reply);
        });
  }

  /** Sends a call to a server that has just said that it has no module. */
  private CompletionStage<Object> otherwise(List<String> words, String key, int left, ErrorReply missing) {
    String server = connection.nodeOf(key);
    Missing.right(missing).ifPresentOrElse(right -> lacks.put(server, right), () -> lacks.remove(server));
    Door meanwhile = standing(server); // others may have asked while this call was under way
    boolean known = meanwhile != null && meanwhile.way != Way.MODULE;
    return known ? send(words, key, left - 1) : Stages.chain(ask(server, key), found -> send(words, key, left - 1));
  }

  /**
   * Refuses a module that is older than a command, or a right to it that lacks: other calls are not sent otherwise for
   * that. CL.PEEK without limits, which every version refuses in other words, tells whether the module is there.
   */
  private CompletionStage<Object> olderOr(List<String> words, String key, int left, ErrorReply missing) {
    return Stages.chain(
        send(key, "CL.PEEK", key),
        peeked -> {
          if (Missing.is(peeked)) {
            return otherwise(words, key, left, missing);
          }
          if (peeked instanceof ErrorReply error && Errors.of("CL.PEEK", error) instanceof OutageException outage) {
            return CompletableFuture.failedFuture(outage);
          }
          MistakeException older = new MistakeException(INSPECT + ": the server's throttle.so is older than this command", null);
          return Missing.right(missing).isPresent() ? CompletableFuture.completedFuture(missing) : CompletableFuture.failedFuture(older);
        });
  }

  /**
   * Sends a call as a script that the server knows by its hash. Where no command is for scripts that only read, the
   * other one is.
   */
  private CompletionStage<Object> byHash(Door door, List<String> words, String key) {
    List<String> sent = Library.asScript(words, false);
    if (door.plain) {
      return connection.send(new Command(Library.mayWrite(sent), key));
    }
    return Stages.chain(
        connection.send(new Command(sent, key)),
        reply -> {
          if (!Missing.is(reply) || Library.mayWrite(sent).equals(sent)) {
            return CompletableFuture.completedFuture(reply);
          }
          door.plain = true;
          return byHash(door, words, key);
        });
  }

  /**
   * Forgets a door when the server is lost, or is no master any more: behind the next connection there may be the
   * module.
   */
  private CompletionStage<Object> forgets(String server, Door door, CompletionStage<Object> sent) {
    sent.whenComplete(
        (reply, error) -> {
          if (Errors.unwrapped(error) instanceof OutageException || (reply instanceof ErrorReply no && no.isNoMaster())) {
            doors.remove(server, door);
          }
        });
    return sent; // itself, so that who leaves cancels it
  }

  private @Nullable Door standing(String server) {
    Door door = doors.get(server);
    if (door != null && door.isOver()) {
      doors.remove(server, door);
      return null;
    }
    return door;
  }

  /** Finds out how a server takes calls. Of all callers that want to know one asks, and the others wait for it. */
  private CompletableFuture<Door> ask(String server, String key) {
    CompletableFuture<Door> mine = new CompletableFuture<>();
    CompletableFuture<Door> asked = questions.putIfAbsent(server, mine);
    if (asked != null) {
      return asked.copy();
    }
    Stages.copy(find(server, key, ROUNDS), mine);
    mine.whenComplete((door, error) -> questions.remove(server, mine));
    return mine.copy();
  }

  /** Looks for the library, loads it if there is none, or an older one, and falls back to the script. */
  private CompletionStage<Door> find(String server, String key, int rounds) {
    return Stages.chain(
        send(key, "FCALL", "cl_version", "1", key),
        found -> {
          if (says(found, "Function not found")) {
            return Stages.chain(load(key), loaded -> loaded(server, key, rounds, 0, loaded));
          }
          if (found instanceof ErrorReply error) {
            return loaded(server, key, 0, 0, error);
          }
          if (!(found instanceof Long version) || version < 1 || version > NEWEST) {
            return foreign(server, key);
          }
          if (version < Library.VERSION) {
            return Stages.chain(replace(key, version), loaded -> loaded(server, key, rounds, version, loaded));
          }
          // It has to have our functions, too: ours misses its limits. A user may have the right to one way of calling
          // them alone.
          return Stages.chain(
              send(key, "FCALL_RO", "cl_peek", "1", key),
              peeked -> {
                if (Missing.is(peeked)) {
                  return loaded(server, key, 0, 0, peeked);
                }
                if (says(peeked, "Function not found") && rounds > 1) {
                  return find(server, key, rounds - 1); // the library may have been deleted between the two questions
                }
                if (!(peeked instanceof ErrorReply) || says(peeked, "Function not found")) {
                  return foreign(server, key);
                }
                String text = "the function library " + Library.dotted(version) + ": calls are sent as functions";
                return CompletableFuture.completedFuture(found(server, new Door(Way.LIBRARY, doorsLast), has(server) + text));
              });
        });
  }

  /** What the log says of the module. Where functions are all that may be called, nobody has looked for it. */
  private String without(String server) {
    if (commands == Commands.FUNCTIONS) {
      return "%s";
    }
    String right = lacks.get(server);
    return right == null ? "%s has no module" : "%s refuses " + right + ", which its user has no right for";
  }

  private String has(String server) {
    return without(server) + (commands == Commands.FUNCTIONS ? " has " : lacks.containsKey(server) ? ", and has " : ", and ");
  }

  private CompletionStage<Door> foreign(String server, String key) {
    String text = has(server) + "a function cl_version of somebody else's library, beside which ours cannot be loaded" + SLOWLY;
    return scripts(server, key, text, "the function cl_version is somebody else's", doorsLast);
  }

  private CompletionStage<Object> load(String key) {
    return send(key, "FUNCTION", "LOAD", Library.NAMED);
  }

  /**
   * Names of functions are unique on a server, so an older library goes first, in the same transaction: REPLACE of one
   * name would put this library over a newer one that came in between. An operator's is called throttle; if none of
   * that name has cl_version, that one is somebody else's, and the older library has the name that a client gave it.
   */
  private CompletionStage<Object> replace(String key, long old) {
    return Stages.chain(
        send(key, "FUNCTION", "LIST", "LIBRARYNAME", BY_HAND),
        listed -> {
          String name = names(listed, "cl_version") ? BY_HAND : "throttle_" + old;
          List<Command> both =
              List.of(new Command(List.of("FUNCTION", "DELETE", name), key), new Command(List.of("FUNCTION", "LOAD", Library.NAMED), key));
          return Stages.map(connection.sendAtomically(both), replies -> replies instanceof List<?> list ? list.get(list.size() - 1) : replies);
        });
  }

  /** Whether a word is in a reply of any form. */
  private static boolean names(Object reply, String word) {
    if (reply instanceof Map<?, ?> map) {
      return names(map.keySet(), word) || names(map.values(), word);
    }
    if (reply instanceof Collection<?> values) {
      return values.stream().anyMatch(value -> names(value, word));
    }
    return word.equals(reply instanceof byte[] bytes ? new String(bytes, StandardCharsets.UTF_8) : reply);
  }

  /** Goes on with what a server said when the library was loaded, in the place of an old one if there was one. */
  private CompletionStage<Door> loaded(String server, String key, int rounds, long old, Object reply) {
    if (!(reply instanceof ErrorReply error)) {
      String place = old == 0 ? "" : " in place of " + Library.dotted(old);
      String text = ": the function library " + Library.dotted(Library.VERSION) + " was loaded" + place + ", and calls are sent as functions";
      return CompletableFuture.completedFuture(found(server, new Door(Way.LIBRARY, doorsLast), without(server) + text));
    }
    boolean replica = error.code().equals("READONLY");
    if (!replica && Errors.of("FUNCTION", error) instanceof OutageException outage) {
      return CompletableFuture.failedFuture(outage);
    }
    if (rounds > 1 && error.text().endsWith("already exists")) {
      return find(server, key, rounds - 1);
    }
    String refused = error.text().split(", with args beginning with", 2)[0];
    String text = without(server) + (commands == Commands.FUNCTIONS ? "" : " and") + " refuses functions (" + refused + ")" + SLOWLY;
    if (old != 0) {
      text =
          has(server) + "the function library " + Library.dotted(old) + ", which may not be replaced by " + Library.dotted(Library.VERSION) + " (" + refused + ")" + SLOWLY;
    }
    return scripts(server, key, text, refused, replica ? SOON : doorsLast);
  }

  /**
   * Calls scripts from now on, unless the server is older than Redis 7.0: there a script would end in the middle, after
   * it has charged.
   */
  private CompletionStage<Door> scripts(String server, String key, String text, String refused, Duration lasts) {
    return Stages.chain(
        send(key, "PEXPIRETIME", key),
        told -> {
          if (told instanceof ErrorReply no && Missing.is(no) && Missing.right(no).isEmpty()) {
            String old = " has no throttle.so, and is older than Redis 7.0: it has no PEXPIRETIME, which the function library needs";
            return CompletableFuture.failedFuture(new MistakeException((server.isEmpty() ? "the server" : server) + old, null));
          }
          return Stages.chain(send(key, "EVAL", Library.SCRIPT, "1", key, "cl_version"), ran -> ran(server, text, refused, lasts, ran));
        });
  }

  private CompletionStage<Door> ran(String server, String text, String refused, Duration lasts, Object reply) {
    if (!(reply instanceof ErrorReply last)) {
      return CompletableFuture.completedFuture(found(server, new Door(Way.SCRIPT, lasts), text));
    }
    ThrottleException made = Errors.of("EVAL", last);
    String right = lacks.get(server);
    String why = right == null ? "has no throttle.so (unknown command)" : "does not let this user run " + right;
    String whole = "the server " + why + ", and refuses functions (" + refused + ") and scripts: " + made.getMessage();
    return CompletableFuture.failedFuture(made instanceof OutageException ? made : new MistakeException(whole, null));
  }

  private CompletionStage<Object> send(String key, String... words) {
    return connection.send(new Command(List.of(words), key));
  }

  private Door found(String server, Door door, String text) {
    doors.put(server, door);
    Way before = told.put(server, door.way);
    if (before != door.way && (before != null || door.way != Way.MODULE)) {
      Level level = door.way == Way.SCRIPT ? Level.WARNING : Level.INFO;
      LOG.log(level, "redis-throttle: " + text.replace("%s", server.isEmpty() ? "the server" : server));
    }
    return door;
  }

  private static boolean says(Object reply, String begin) {
    return reply instanceof ErrorReply error && error.text().replaceFirst("^ERR ", "").startsWith(begin);
  }
}
