package io.github.redisthrottle.testing;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * A server of throttle-dev for tests over a socket, which this process has started: one for each test class. It ends
 * when it is closed, or with this process.
 *
 * <pre>{@code
 * try (ThrottleDev server = ThrottleDev.start();
 *     Limiter limiter = Limiter.over(LettuceConnection.of(server.url()))) {
 *   limiter.limit("acme", fixed(1, 1, ChronoUnit.MONTHS));
 *   server.advance("1mo");
 * }
 * }</pre>
 */
public final class ThrottleDev implements AutoCloseable {
  private static final Pattern PORT = Pattern.compile("127\\.0\\.0\\.1:(\\d+)|\\bport (\\d+)");

  private final ReentrantLock lock = new ReentrantLock();
  private final Process process;
  private final Thread end;
  private final int port;
  private @Nullable Socket socket;
  private @Nullable BufferedReader replies;

  private ThrottleDev(Process process, int port) {
    this.process = process;
    this.port = port;
    this.end = new Thread(process::destroyForcibly);
    Runtime.getRuntime().addShutdownHook(end);
  }

  /**
   * Starts the program that the environment names in {@code THROTTLE_DEV}, or else {@code throttle-dev} of the
   * {@code PATH}, on a free port of 127.0.0.1, and waits until it serves.
   *
   * @throws IllegalStateException if it cannot be started
   */
  public static ThrottleDev start() {
    String named = System.getenv("THROTTLE_DEV");
    return start(named == null ? "throttle-dev" : named);
  }

  /** As {@link #start()}, of a program that you name. */
  public static ThrottleDev start(String program) {
    Process process;
    try {
      process = new ProcessBuilder(program, "--port", "0").redirectErrorStream(true).start();
    } catch (IOException e) {
      throw new IllegalStateException(
          program + " cannot be started: " + e.getMessage() + ". Build it with go build ./cmd/throttle-dev, and put it into the PATH or name it in THROTTLE_DEV", e);
    }
    BufferedReader output = process.inputReader(StandardCharsets.UTF_8);
    StringBuilder said = new StringBuilder();
    try {
      for (String line = output.readLine(); line != null; line = output.readLine()) {
        Matcher found = PORT.matcher(said.append(line).append('\n'));
        if (found.find()) {
          drain(output);
          return new ThrottleDev(process, Integer.parseInt(found.group(1) == null ? found.group(2) : found.group(1)));
        }
      }
    } catch (IOException e) {
      said.append(e.getMessage());
    }
    process.destroyForcibly();
    throw new IllegalStateException(program + " has ended: " + said);
  }

  /** Reads what the server says, so that it never waits for a reader. */
  private static void drain(BufferedReader output) {
    Thread reader =
        new Thread(
            () -> {
              try {
                while (output.readLine() != null) { // its lines are for nobody
                }
              } catch (IOException e) {
                // It has ended.
              }
            },
            "throttle-dev");
    reader.setDaemon(true);
    reader.start();
  }

  /** Returns its address for a client: {@code redis://127.0.0.1:12345}. */
  public String url() {
    return "redis://127.0.0.1:" + port;
  }

  /** Returns its port on 127.0.0.1. */
  public int port() {
    return port;
  }

  /**
   * Lets time pass at once: {@code 500ms}, {@code 1.5h}, {@code 2w}, {@code 1mo}. Callers that wait have their turns on
   * the way. Returns what time it is then.
   */
  public Instant advance(String duration) {
    return Instant.parse(command("CL.DEV.ADVANCE", duration));
  }

  /** As {@link #advance(String)}. */
  public Instant advance(Duration duration) {
    return advance(duration.toMillis() + "ms");
  }

  /** Sets the clock, which stands still from then on. */
  public Instant setTime(Instant time) {
    return Instant.parse(command("CL.DEV.TIME", time.toString(), "STOP"));
  }

  /** Deletes all keys. */
  public void flush() {
    command("FLUSHALL");
  }

  /**
   * Sends a command, and returns its reply as a text.
   *
   * @throws IllegalStateException if the reply is an error, or the server has ended
   */
  public String command(String... words) {
    lock.lock();
    try {
      if (socket == null) {
        socket = new Socket(InetAddress.getLoopbackAddress(), port);
        replies = new BufferedReader(new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8));
      }
      StringBuilder sent = new StringBuilder("*" + words.length + "\r\n");
      for (String word : words) {
        sent.append("$" + word.getBytes(StandardCharsets.UTF_8).length + "\r\n" + word + "\r\n");
      }
      OutputStream out = socket.getOutputStream();
      out.write(sent.toString().getBytes(StandardCharsets.UTF_8));
      out.flush();
      BufferedReader in = Objects.requireNonNull(replies);
      String reply = in.readLine();
      if (reply == null) {
        throw new IOException("it has closed the connection");
      }
      if (reply.startsWith("-")) {
        throw new IllegalStateException(reply.substring(1));
      }
      return reply.startsWith("$") ? in.readLine() : reply.substring(1);
    } catch (IOException e) {
      throw new IllegalStateException("throttle-dev has ended: " + e.getMessage(), e);
    } finally {
      lock.unlock();
    }
  }

  /** Ends the server. */
  @Override
  public void close() {
    try {
      Runtime.getRuntime().removeShutdownHook(end);
    } catch (IllegalStateException e) {
      // The process is ending, and does it.
    }
    lock.lock();
    try {
      if (socket != null) {
        socket.close();
      }
    } catch (IOException e) {
      // It is closed.
    } finally {
      lock.unlock();
    }
    process.destroy();
    try {
      if (!process.waitFor(5, TimeUnit.SECONDS)) {
        process.destroyForcibly();
      }
    } catch (InterruptedException e) {
      process.destroyForcibly();
      Thread.currentThread().interrupt();
    }
  }
}
