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
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import javax.net.ssl.SSLException;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.SSLSocketFactory;

/**
 * Whether a server is alive whose connections say nothing. It is asked over a connection of its own, which does not log in: that one has to
 * is a sign of life, too.
 */
public final class Pulse {
  private static final long SILENCE_NS = TimeUnit.SECONDS.toNanos(1);
  private static final byte[] PING = "PING\r\n".getBytes(StandardCharsets.US_ASCII);
  private static final Map<Place, Asked> ASKED = new ConcurrentHashMap<>();

  private Pulse() {}

  /**
   * Where a connection leads.
   *
   * @param address of the server; its name, if it has one, may lead to another server later
   * @param tls whether it speaks TLS
   */
  public record Place(InetSocketAddress address, boolean tls) {}

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
   * Asks a server for a sign of life, in a thread of its own. The future never fails: it says whether there was one. One question serves all
   * that ask at a time. A sign of life stands for half of the patience, and silence for a second.
   *
   * @param patience how long connecting and an answer may take: 1 ms or more
   */
  public static CompletableFuture<Boolean> of(Place place, Duration patience) {
    Asked mine = new Asked(patience.toNanos());
    Asked asked = ASKED.compute(place, (at, before) -> before != null && before.stands() ? before : mine);
    if (asked == mine) {
      Thread thread = new Thread(() -> mine.alive.complete(answers(place, Math.toIntExact(patience.toMillis()))), "throttle-pulse");
      thread.setDaemon(true);
      thread.start();
    }
    return asked.alive.copy();
  }

  /**
   * Asks again and again while somebody waits. An outage ends the wait, and nothing else does: a process that is busy is no sign of death.
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
