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

/**
 * How a call is sent to a server: as a command of the module, as a function of the library, or as a script. Each server has a door of its
 * own.
 *
 * <p>Nothing is asked beforehand. A server that lacks what it is sent says so, and nothing has happened then; so the call itself is the
 * question, and a server with the module costs no round trip more.
 */
final class Doors {
  private static final Logger LOG = System.getLogger("io.github.redisthrottle");

  /** How many answers that a server lacks what it was sent a call takes. */
  private static final int TRIES = 5;

  /** How often somebody else may load a library while this process is about to. */
  private static final int ROUNDS = 3;

  /** The name of the library in functions/throttle.lua. */
  private static final String BY_HAND = "throttle";

  /** The version 99.99.99. What is no number up to it is no version. */
  private static final long NEWEST = 999_999;

  private static final String SLOWLY = ": calls are sent as scripts, which take longer";

  /** How long calls are sent as scripts before a server is asked again: its rights, or what is loaded there, may have changed. */
  @SuppressWarnings("NonFinalStaticField") // tests do not wait
  static volatile Duration scriptsLast = Duration.ofMinutes(5);

  private enum Door {
    MODULE,
    LIBRARY,
    SCRIPT
  }

  private final Connection connection;
  private final Commands commands;
  private final Map<String, Door> doors = new ConcurrentHashMap<>();
  private final Map<String, Door> told = new ConcurrentHashMap<>();
  private final Map<String, Long> scriptsSinceNs = new ConcurrentHashMap<>();
  private final Map<String, CompletableFuture<Door>> questions = new ConcurrentHashMap<>();

  Doors(Connection connection, Commands commands) {
    this.connection = connection;
    this.commands = commands;
  }

  /** Sends a command that is answered at once. */
  CompletionStage<Object> send(List<String> words, String key) {
    boolean plain = commands == Commands.MODULE || !words.get(0).startsWith("CL.");
    return plain ? connection.send(new Command(words, key)) : send(words, key, TRIES);
  }

  /** Sends a command that waits for its turn, which takes the module, until its caller has left. */
  CompletionStage<Object> sendWaiting(List<String> words, String key, CompletionStage<Void> left) {
    return connection.sendWaiting(new Command(words, key), left);
  }

  /** Returns whether a server is known to have no module, or is not to be asked for it. */
  boolean isWithoutModule(String key) {
    return commands == Commands.FUNCTIONS || (!doors.isEmpty() && doors.getOrDefault(connection.nodeOf(key), Door.MODULE) != Door.MODULE);
  }

  /** Returns whether a reply says that the server lacks the module, where there are other ways than it. */
  boolean lacksModule(Object reply) {
    return commands == Commands.AUTO && isUnknown(reply);
  }

  private CompletionStage<Object> send(List<String> words, String key, int left) {
    String server = connection.nodeOf(key);
    Door door = standing(server);
    if (left == 0) { // the key moves through a cluster, say: a whole script follows it by itself
      return connection.send(new Command(Library.asScript(words, true), key));
    }
    if (door == Door.LIBRARY || door == Door.SCRIPT) {
      List<String> sent = door == Door.LIBRARY ? Library.asFunction(words) : Library.asScript(words, false);
      return Stages.chain(connection.send(new Command(sent, key)), reply -> {
        if (!says(reply, door == Door.LIBRARY ? "Function not found" : "NOSCRIPT")) {
          if (door == Door.SCRIPT && (isUnknown(reply) || says(reply, "NOPERM"))) {
            doors.remove(server, door);
          }
          return CompletableFuture.completedFuture(reply);
        }
        doors.remove(server, door); // the server may have anything now
        return send(words, key, left - 1);
      });
    }
    if (commands == Commands.FUNCTIONS) {
      return Stages.chain(ask(server, key), found -> send(words, key, left - 1));
    }
    return Stages.chain(
        connection.send(new Command(words, key)),
        reply -> {
          if (isUnknown(reply)) {
            return Stages.chain(ask(server, key), found -> send(words, key, left - 1));
          }
          if (door == null) {
            found(server, Door.MODULE, "%s has the module: calls are sent as its commands");
          }
          return CompletableFuture.completedFuture(reply);
        });
  }

  private Door standing(String server) {
    Door door = doors.get(server);
    if (door == Door.SCRIPT && System.nanoTime() - scriptsSinceNs.get(server) > scriptsLast.toNanos()) {
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
        send(key, "FCALL_RO", "cl_version", "0"),
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
          // It has to have our functions, too. Ours misses its key.
          return Stages.chain(
              send(key, "FCALL_RO", "cl_peek", "0"),
              peeked -> {
                if (!(peeked instanceof ErrorReply) || says(peeked, "Function not found")) {
                  return foreign(server, key);
                }
                String text = "the function library " + Library.dotted(version) + ": calls are sent as functions";
                return CompletableFuture.completedFuture(found(server, Door.LIBRARY, has() + text));
              });
        });
  }

  // Where functions are all that may be called, nobody has looked for the module.
  private String has() {
    return commands == Commands.FUNCTIONS ? "%s has " : "%s has no module, and ";
  }

  private CompletionStage<Door> foreign(String server, String key) {
    String text = has() + "a function cl_version of somebody else's library, beside which ours cannot be loaded" + SLOWLY;
    return scripts(server, key, text, "the function cl_version is somebody else's");
  }

  private CompletionStage<Object> load(String key) {
    return send(key, "FUNCTION", "LOAD", Library.NAMED);
  }

  /**
   * Names of functions are unique on a server, so an older library goes first, in the same transaction: REPLACE of one name would put this
   * library over a newer one that came in between. An operator's is called throttle; if none of that name has
   * cl_version, that one is somebody else's, and the older library has the name that a client gave it.
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
      String lacks = commands == Commands.FUNCTIONS ? "%s" : "%s has no module";
      String place = old == 0 ? "" : " in place of " + Library.dotted(old);
      String text = ": the function library " + Library.dotted(Library.VERSION) + " was loaded" + place + ", and calls are sent as functions";
      return CompletableFuture.completedFuture(found(server, Door.LIBRARY, lacks + text));
    }
    if (Errors.of("FUNCTION", error) instanceof OutageException outage) {
      return CompletableFuture.failedFuture(outage);
    }
    if (rounds > 1 && error.text().endsWith("already exists")) {
      return find(server, key, rounds - 1);
    }
    String refused = error.text().split(", with args beginning with", 2)[0];
    String text = (commands == Commands.FUNCTIONS ? "%s refuses" : "%s has no module and refuses") + " functions (" + refused + ")" + SLOWLY;
    if (old != 0) {
      text =
          has() + "the function library " + Library.dotted(old) + ", which may not be replaced by " + Library.dotted(Library.VERSION) + " (" + refused + ")" + SLOWLY;
    }
    return scripts(server, key, text, refused);
  }

  private CompletionStage<Door> scripts(String server, String key, String text, String refused) {
    return Stages.chain(
        send(key, "EVAL", Library.SCRIPT, "0", "cl_version"),
        ran -> {
          if (!(ran instanceof ErrorReply last)) {
            scriptsSinceNs.put(server, System.nanoTime());
            return CompletableFuture.completedFuture(found(server, Door.SCRIPT, text));
          }
          ThrottleException made = Errors.of("EVAL", last);
          return CompletableFuture.failedFuture(
              made instanceof OutageException
                  ? made
                  : new MistakeException(
                      "the server has no throttle.so (unknown command), and refuses functions (" + refused + ") and scripts: " + made.getMessage(), null));
        });
  }

  private CompletionStage<Object> send(String key, String... words) {
    return connection.send(new Command(List.of(words), key));
  }

  private Door found(String server, Door door, String text) {
    doors.put(server, door);
    Door before = told.put(server, door);
    if (before != door && (before != null || door != Door.MODULE)) {
      Level level = door == Door.SCRIPT ? Level.WARNING : Level.INFO;
      LOG.log(level, "throttle: " + text.replace("%s", server.isEmpty() ? "the server" : server));
    }
    return door;
  }

  private static boolean isUnknown(Object reply) {
    return says(reply, "unknown command");
  }

  private static boolean says(Object reply, String begin) {
    return reply instanceof ErrorReply error && error.text().replaceFirst("^ERR ", "").startsWith(begin);
  }
}
