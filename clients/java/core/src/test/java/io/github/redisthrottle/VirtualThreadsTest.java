package io.github.redisthrottle;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.github.redisthrottle.testing.Clients;
import io.github.redisthrottle.testing.Server;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.spi.ToolProvider;
import java.util.stream.Stream;
import jdk.jfr.Recording;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordedStackTrace;
import jdk.jfr.consumer.RecordingFile;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Nothing pins the carrier of a virtual thread. */
class VirtualThreadsTest {
  private static final List<String> LINKERS = List.of("java.lang.ClassLoader", "jdk.internal.loader.", "java.lang.invoke.MethodHandleNatives");

  /** A thread that waits within synchronized pins its carrier on Java 21 to 23. */
  @Test
  void noClassHasASynchronizedMethodOrBlock() throws Exception {
    Path classes = Path.of(Limiter.class.getProtectionDomain().getCodeSource().getLocation().toURI());
    List<String> files;
    try (Stream<Path> all = Files.walk(classes)) {
      files = all.map(Path::toString).filter(file -> file.endsWith(".class")).toList();
    }
    assertTrue(files.size() > 80, files.size() + " classes");
    List<String> arguments = new ArrayList<>(List.of("-c", "-p"));
    arguments.addAll(files);
    StringWriter code = new StringWriter();
    ToolProvider.findFirst("javap").orElseThrow().run(new PrintWriter(code), new PrintWriter(System.err, true, UTF_8), arguments.toArray(String[]::new));
    assertTrue(code.toString().contains("class io.github.redisthrottle.Limiter"));
    List<String> synchronizing = code.toString().lines().filter(line -> line.contains("monitorenter") || line.contains(" synchronized ")).toList();
    assertEquals(List.of(), synchronizing);
  }

  /** Runs where the JVM has virtual threads. */
  @ParameterizedTest
  @EnumSource
  void twoThousandVirtualThreadsTakeNoMoreThanThereIsAndNoneIsPinned(Clients client, @TempDir Path folder) throws Exception {
    ExecutorService threads = virtual();
    assumeTrue(threads != null, "this JVM has no virtual threads");
    Limit quota = Limit.fixed(500, Duration.ofDays(1));
    List<Future<Boolean>> calls = new ArrayList<>();
    Path file = folder.resolve("pinned.jfr");
    long allowed = 1; // by the first call
    try (Server server = Server.start();
        Limiter limiter = Limiter.over(client.patient(server.port));
        Recording recording = new Recording()) {
      Server.await("the classes are there", () -> await(threads.submit(() -> decided(limiter, quota))));
      await(threads.submit(() -> decided(limiter, Limit.fixed(0, Duration.ofDays(1)))));
      recording.enable("jdk.VirtualThreadPinned").withThreshold(Duration.ZERO).withStackTrace();
      recording.start();
      for (int i = 0; i < 2000; i++) {
        calls.add(threads.submit(() -> decided(limiter, quota)));
      }
      for (Future<Boolean> call : calls) {
        allowed += call.get() ? 1 : 0;
      }
      recording.stop();
      recording.dump(file);
    }
    threads.shutdown();
    assertTrue(allowed > 1 && allowed <= 500, allowed + " were let through");
    assertEquals(List.of(), pinned(file));
  }

  private static boolean decided(Limiter limiter, Limit quota) {
    try {
      return limiter.limit("k", quota).allowed();
    } catch (OverloadException | OutageException e) {
      return false; // on a busy machine: it was not let through
    }
  }

  private static boolean await(Future<Boolean> call) {
    try {
      return call.get();
    } catch (InterruptedException | ExecutionException e) {
      throw new IllegalStateException(e);
    }
  }

  private static ExecutorService virtual() throws ReflectiveOperationException {
    if (Runtime.version().feature() < 21) {
      return null;
    }
    return (ExecutorService) Executors.class.getMethod("newVirtualThreadPerTaskExecutor").invoke(null);
  }

  /** Returns the events of threads that were pinned while they were in a class of ours. */
  private static List<String> pinned(Path file) throws IOException {
    return RecordingFile.readAllEvents(file).stream()
        .filter(event -> !waitedForAClass(event))
        .map(String::valueOf)
        .filter(event -> Arrays.stream(event.split("\n")).anyMatch(line -> line.contains("io.github.redisthrottle")))
        .toList();
  }

  /** Returns the classes of the methods that a thread was in, the innermost first. */
  private static List<String> types(RecordedEvent event) {
    RecordedStackTrace stack = event.getStackTrace();
    return stack == null ? List.of() : stack.getFrames().stream().map(frame -> frame.getMethod().getType().getName()).toList();
  }

  /**
   * A thread that waits for another one to load, link or initialize a class is pinned, once in the life of a process.
   * The JVM enters the monitor of a class that is loaded without a frame of its own: since no class of ours has a
   * monitor, a monitor at our own line is such a one. It calls loaders and linkers from native code.
   */
  private static boolean waitedForAClass(RecordedEvent event) {
    List<String> within = types(event).stream().takeWhile(type -> !type.startsWith("io.github.redisthrottle.")).toList();
    if (within.stream().anyMatch(type -> LINKERS.stream().anyMatch(type::startsWith))) {
      return true;
    }
    return event.hasField("pinnedReason")
        && (String.valueOf(event.getString("pinnedReason")).startsWith("Waited for initialization")
            || (within.isEmpty() && String.valueOf(event.getString("blockingOperation")).equals("Contended monitor enter")));
  }
}
