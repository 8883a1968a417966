package io.github.redisthrottle.connection;

import io.github.redisthrottle.OutageException;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Supplier;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.net.ssl.SSLException;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.SSLSocketFactory;

/**
 * Whether a server is alive whose connections say nothing. It is asked over a connection of its own, which does not log
 * in: that one has to is a sign of life, too.
 */
public final class Pulse {
  private static final long SILENCE_NS = TimeUnit.SECONDS.toNanos(1);
  private static final byte[] PING = "PING\r\n".getBytes(StandardCharsets.US_ASCII);
  private static final Pattern RUN = Pattern.compile("(?m)^run_id:(\\w+)");
  private static final Map<Question, Asked> ASKED = new ConcurrentHashMap<>();

  /** Asks a server which one it is, see {@link #run}. */
  public static final Command WHO = new Command(List.of("INFO", "server"), null);

  private Pulse() {}

  /**
   * Where a connection leads.
   *
   * @param address of the server; its name, if it has one, may lead to another server later
   * @param tls whether it speaks TLS
   */
  public record Place(InetSocketAddress address, boolean tls) {}

  /** Whether the server at a place lives, or, with a run, whether it is that one. */
  private record Question(Place place, String run) {}

  /** A question, and when it was asked. */
  private static final class Asked {
    final CompletableFuture<Boolean> alive = new CompletableFuture<>();
    final long at = System.nanoTime();
    final long patienceNs;

    Asked(long patienceNs) {
      this.patienceNs = patienceNs;
    }

    boolean stands() {
      return !alive.isDone() || System.nanoTime() - at < (alive.join() ? patienceNs / 2 : SILENCE_NS);
    }
  }

  /**
   * Asks a server for a sign of life, in a thread of its own. The future never fails: it says whether there was one.
   * One question serves all that ask at a time. A sign of life stands for half of the patience, and silence for a
   * second.
   *
   * @param patience how long connecting and an answer may take: 1 ms or more
   */
  public static CompletableFuture<Boolean> of(Place place, Duration patience) {
    return ask(
        new Question(place, ""),
        patience,
        alive -> {
          Thread thread = new Thread(() -> alive.complete(answers(place, Math.toIntExact(patience.toMillis()))), "throttle-pulse");
          thread.setDaemon(true);
          thread.start();
        });
  }

  private static CompletableFuture<Boolean> ask(Question question, Duration patience, Consumer<CompletableFuture<Boolean>> ask) {
    Asked mine = new Asked(patience.toNanos());
    Asked asked = ASKED.compute(question, (about, before) -> before != null && before.stands() ? before : mine);
    if (asked == mine) {
      ask.accept(mine.alive);
    }
    return asked.alive.copy();
  }

  /**
   * Returns what tells a server from all others, and from itself before a restart, in its reply to {@link #WHO}; empty
   * if it does not say.
   */
  public static String run(Object reply) {
    Matcher found = RUN.matcher(String.valueOf(reply));
    return found.find() ? found.group(1) : "";
  }

  /**
   * Asks again and again while somebody waits. An outage ends the wait, and nothing else does: a process that is busy
   * is no sign of death.
   *
   * @param pause between two questions
   */
  public static void watch(CompletableFuture<?> waiting, Duration pause, Supplier<? extends CompletionStage<?>> ask) {
    CompletableFuture.delayedExecutor(pause.toNanos(), TimeUnit.NANOSECONDS)
        .execute(
            () -> {
              if (!waiting.isDone()) {
                ask.get()
                    .whenComplete(
                        (answer, error) -> {
                          Throwable cause = error instanceof CompletionException ? error.getCause() : error;
                          if (cause instanceof OutageException) {
                            waiting.completeExceptionally(cause);
                          } else {
                            watch(waiting, pause, ask);
                          }
                        });
              }
            });
  }

  /** Asks a server where somebody waits. The future fails with an outage if there is no sign of life. */
  public static CompletableFuture<Void> expect(String server, Place place, Duration patience) {
    return of(place, patience)
        .thenAccept(
            alive -> {
              if (!alive) {
                throw new OutageException(server + ": no sign of life within " + patience.toMillis() + " ms", null);
              }
            });
  }

  /**
   * As {@link #expect(String, Place, Duration)}. What another server answers, to which the address leads by now, such
   * as that of a balancer, is no sign of life.
   *
   * @param run which server it is, see {@link #run}; empty if that is not known
   * @param who connects as the client does, and returns the reply to {@link #WHO}. One that fails tells nothing
   */
  public static CompletableFuture<Void> expect(
      String server, Place place, String run, Duration patience, Supplier<? extends CompletionStage<?>> who) {
    CompletableFuture<Void> alive = expect(server, place, patience);
    if (run.isEmpty()) {
      return alive;
    }
    return alive
        .thenCompose(there -> ask(new Question(place, run), patience, same -> compare(run, patience, who, same)))
        .thenAccept(
            same -> {
              if (!same) {
                throw new OutageException(server + ": another server answers at the address of the one where the call waits", null);
              }
            });
  }

  private static void compare(String run, Duration patience, Supplier<? extends CompletionStage<?>> who, CompletableFuture<Boolean> same) {
    who.get()
        .whenComplete(
            (info, error) -> {
              String there = error == null ? run(info) : "";
              same.complete(there.isEmpty() || there.equals(run));
            });
    same.completeOnTimeout(true, patience.toNanos(), TimeUnit.NANOSECONDS);
  }

  private static boolean answers(Place place, int ms) {
    InetSocketAddress at = place.address();
    try (Socket socket = new Socket()) {
      socket.connect(at.isUnresolved() ? new InetSocketAddress(at.getHostString(), at.getPort()) : at, ms);
      socket.setSoTimeout(ms);
      return place.tls() ? shakesHands(socket) : says(socket);
    } catch (IOException e) {
      return false;
    }
  }

  private static boolean says(Socket socket) throws IOException {
    socket.getOutputStream().write(PING);
    InputStream in = socket.getInputStream();
    try {
      return in.read() >= 0;
    } catch (SocketTimeoutException e) {
      return in.available() > 0; // this thread was late
    }
  }

  /** Nothing is told to whoever answers, so that its certificate is not trusted is an answer. */
  private static boolean shakesHands(Socket socket) throws IOException {
    SSLSocketFactory factory = (SSLSocketFactory) SSLSocketFactory.getDefault();
    try (SSLSocket over = (SSLSocket) factory.createSocket(socket, socket.getInetAddress().getHostAddress(), socket.getPort(), true)) {
      over.startHandshake();
      return true;
    } catch (SSLException e) {
      return !(e.getCause() instanceof EOFException) && !(e.getCause() instanceof SocketTimeoutException);
    }
  }
}
