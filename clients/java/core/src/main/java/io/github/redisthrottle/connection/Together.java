package io.github.redisthrottle.connection;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * Calls of one thread that do not depend on each other, such as renewals of leases. A {@link Connection} that blocks
 * would take a round trip for each: it collects them instead, and sends them in one.
 */
public final class Together {
  private static final ThreadLocal<Together> HERE = new ThreadLocal<>();

  private final Map<Consumer<List<Sent>>, List<Sent>> collected = new LinkedHashMap<>();

  private Together() {}

  /**
   * A command that was collected.
   *
   * @param command what is to be sent
   * @param reply completed as {@link Connection#send} says
   */
  public record Sent(Command command, CompletableFuture<Object> reply) {}

  /** Runs what makes calls, and then sends those that were collected. */
  public static void run(Runnable calls) {
    Together before = HERE.get();
    Together together = new Together();
    HERE.set(together);
    try {
      calls.run();
    } finally {
      HERE.set(before);
      together.collected.forEach(Consumer::accept);
    }
  }

  /** Collects a command, which {@code sender} sends with the others. Returns null in a thread that collects none. */
  public static @Nullable CompletableFuture<Object> collect(Consumer<List<Sent>> sender, Command command) {
    Together here = HERE.get();
    if (here == null) {
      return null;
    }
    Sent sent = new Sent(command, new CompletableFuture<>());
    here.collected.computeIfAbsent(sender, one -> new ArrayList<>()).add(sent);
    return sent.reply();
  }
}
