package io.github.redisthrottle.testing;

import java.io.IOException;
import java.net.DatagramSocket;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.SocketException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.stream.Stream;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;

/** A real server that this test has started, on a port and in a folder of its own. */
public final class Server implements AutoCloseable {
  /** The root of the repository. */
  public static final Path ROOT = root();

  private static final Duration PATIENCE = Duration.ofSeconds(30);

  private static final List<DatagramSocket> CLAIMS = Collections.synchronizedList(new ArrayList<>());

  public final int port;
  private final Path folder;
  private final List<String> words = new ArrayList<>();
  private Process process;

  private Server(int port, Path folder) {
    this.port = port;
    this.folder = folder;
  }

  /** Starts one with the module. */
  public static Server start(String... options) {
    List<String> words = new ArrayList<>(List.of(options));
    words.addAll(List.of("--loadmodule", module()));
    return plain(words.toArray(String[]::new));
  }

  /** Starts one without the module. */
  public static Server plain(String... options) {
    try {
      Server server = new Server(freePort(), Files.createTempDirectory("throttle-java-"));
      server.words.addAll(
          List.of(program(), "--port", String.valueOf(server.port), "--bind", "127.0.0.1", "--save", "", "--enable-debug-command", "yes"));
      server.words.addAll(List.of(options));
      server.launch();
      return server;
    } catch (IOException e) {
      throw new IllegalStateException(e);
    }
  }

  /** Starts a Sentinel, which wants a file that it can write. */
  public static Server sentinel(String configuration) {
    try {
      Server server = new Server(freePort(), Files.createTempDirectory("throttle-java-"));
      Files.writeString(server.folder.resolve("conf"), "port " + server.port + "\nbind 127.0.0.1\n" + configuration + "\n");
      server.words.addAll(List.of(program(), "conf", "--sentinel"));
      server.launch();
      return server;
    } catch (IOException e) {
      throw new IllegalStateException(e);
    }
  }

  public String url() {
    return "redis://127.0.0.1:" + port;
  }

  /** Returns a client that waits long enough for a busy machine. */
  public Jedis client() {
    return new Jedis(new HostAndPort("127.0.0.1", port), DefaultJedisClientConfig.builder().timeoutMillis((int) PATIENCE.toMillis()).build());
  }

  /** Returns how long a key lives yet; negative without it. */
  public long ttlMs(String key) {
    try (Jedis client = client()) {
      return client.pttl(key);
    }
  }

  /** Sends a command that Jedis has no method for. */
  public void run(String... words) {
    byte[] name = words[0].getBytes(StandardCharsets.UTF_8);
    try (Jedis client = client()) {
      client.sendCommand(() -> name, Arrays.copyOfRange(words, 1, words.length));
    }
  }

  /** Stops it, and returns when it stands still: a signal takes a moment. */
  public void pause() {
    signal("STOP");
    await("the server stands still", () -> state() == 'T');
  }

  private char state() {
    try {
      String stat = Files.readString(Path.of("/proc", String.valueOf(process.pid()), "stat"));
      return stat.charAt(stat.lastIndexOf(')') + 2);
    } catch (IOException e) {
      throw new IllegalStateException(e);
    }
  }

  public void resume() {
    signal("CONT");
  }

  public void kill() {
    process.destroyForcibly();
    process.onExit().join();
  }

  /** Starts it again after it was killed, with more options. */
  public void launch(String... more) {
    words.addAll(List.of(more));
    try {
      ProcessBuilder builder = new ProcessBuilder(words).directory(folder.toFile()).redirectErrorStream(true);
      process = builder.redirectOutput(ProcessBuilder.Redirect.appendTo(folder.resolve("log").toFile())).start();
    } catch (IOException e) {
      throw new IllegalStateException(e);
    }
    await("the server starts", this::answers);
  }

  private boolean answers() {
    if (!process.isAlive()) {
      throw new AssertionError("the server has ended: " + log());
    }
    try (Jedis client = client()) {
      return "PONG".equals(client.ping());
    } catch (RuntimeException e) {
      return false;
    }
  }

  public String log() {
    try {
      return Files.readString(folder.resolve("log"));
    } catch (IOException e) {
      return e.toString();
    }
  }

  private void signal(String name) {
    try {
      new ProcessBuilder("kill", "-" + name, String.valueOf(process.pid())).start().waitFor();
    } catch (IOException | InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  @Override
  public void close() {
    if (process.isAlive()) {
      resume();
    }
    kill();
    if (log().contains("BUG REPORT")) {
      throw new AssertionError(log());
    }
    try (Stream<Path> files = Files.walk(folder)) {
      files.sorted(Comparator.reverseOrder()).forEach(file -> file.toFile().delete());
    } catch (IOException e) {
      throw new IllegalStateException(e);
    }
  }

  /** Waits for a condition, as long as a busy machine may need. */
  public static void await(String what, BooleanSupplier condition) {
    await(what, PATIENCE, condition);
  }

  /** Waits for a condition for so long. */
  public static void await(String what, Duration patience, BooleanSupplier condition) {
    long ends = System.nanoTime() + patience.toNanos();
    while (!condition.getAsBoolean()) {
      if (System.nanoTime() - ends > 0) {
        throw new AssertionError(what + ": not within " + patience.toSeconds() + " s");
      }
      try {
        TimeUnit.MILLISECONDS.sleep(5);
      } catch (InterruptedException e) {
        throw new IllegalStateException(e);
      }
    }
  }

  /**
   * Returns a port that nobody listens on, nor on that of the cluster bus, 10,000 above. It belongs to this process
   * until it ends. Both are below the range from which outgoing connections get theirs. The sign of a claim is the UDP
   * port of the same number, which no server uses: tests in any language look at it.
   */
  public static int freePort() {
    while (true) {
      int port = ThreadLocalRandom.current().nextInt(11_000, 22_000);
      if (isClaimed(port) && isClaimed(port + 10_000)) {
        return port;
      }
    }
  }

  private static boolean isClaimed(int port) {
    InetSocketAddress place = new InetSocketAddress(InetAddress.getLoopbackAddress(), port);
    try {
      DatagramSocket claim = new DatagramSocket(place);
      try (ServerSocket listener = new ServerSocket()) {
        listener.bind(place);
      } catch (IOException e) {
        claim.close();
        return false;
      }
      CLAIMS.add(claim);
      return true;
    } catch (SocketException e) {
      return false;
    }
  }

  private static String program() {
    String program = System.getenv("THROTTLE_SERVER");
    return program == null || program.isEmpty() ? "redis-server" : program;
  }

  /** Returns the path of the module. */
  public static String module() {
    String module = System.getenv("THROTTLE_SO");
    return module == null || module.isEmpty() ? ROOT.resolve("build/throttle.so").toString() : module;
  }

  private static Path root() {
    Path at = Path.of("").toAbsolutePath();
    while (!Files.exists(at.resolve("spec/clients/calls.json"))) {
      at = at.getParent();
    }
    return at;
  }
}
