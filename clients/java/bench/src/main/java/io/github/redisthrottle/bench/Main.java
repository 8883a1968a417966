package io.github.redisthrottle.bench;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.EnumMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.runner.Runner;
import org.openjdk.jmh.runner.RunnerException;
import org.openjdk.jmh.runner.options.OptionsBuilder;
import org.openjdk.jmh.runner.options.TimeValue;
import org.openjdk.jmh.runner.options.VerboseMode;
import org.openjdk.jmh.util.Statistics;
import redis.clients.jedis.JedisPooled;
import redis.clients.jedis.Protocol;

/**
 * Prints a table of all limiters: {@code scripts/bench-clients java [--rounds N] [--ms N] [--threads N] [--keys N]}.
 * They take turns.
 */
public final class Main {
  private static final int CALLS = 1_000;
  private static final int FEW = 100;

  private final Map<Kind, List<Statistics>> measured = new EnumMap<>(Kind.class);
  private final String url;
  private final Map<String, Integer> sizes;

  private Main(String url, Map<String, Integer> sizes) {
    this.url = url;
    this.sizes = sizes;
  }

  /** Runs it on a server, whose data is deleted. */
  public static void main(String[] args) throws RunnerException {
    Map<String, Integer> sizes = sizes(Arrays.copyOfRange(args, 1, args.length));
    Main bench = new Main(args[0], sizes);
    for (int round = 0; round < sizes.get("--rounds"); round++) {
      List<Kind> kinds = new ArrayList<>(List.of(Kind.values()));
      Collections.rotate(kinds, -round); // each round begins with another one
      for (Kind kind : kinds) {
        bench.measure(kind);
      }
    }
    bench.print();
    System.exit(0); // threads of the limiters may be left
  }

  private static Map<String, Integer> sizes(String[] args) {
    Map<String, Integer> sizes = new TreeMap<>(Map.of("--rounds", 3, "--ms", 1_000, "--threads", 8, "--keys", 100));
    for (int i = 0; i < args.length; i += 2) {
      int value = i + 1 < args.length && args[i + 1].matches("[1-9]\\d{0,8}") ? Integer.parseInt(args[i + 1]) : 0;
      if (value == 0 || sizes.replace(args[i], value) == null) {
        throw new IllegalArgumentException(args[i] + ": write " + String.join(" N, ", sizes.keySet()) + " N, with a number from 1 on");
      }
    }
    return sizes;
  }

  private void measure(Kind kind) throws RunnerException {
    OptionsBuilder options = new OptionsBuilder();
    options.include(Calls.class.getName()).mode(Mode.SampleTime).timeUnit(TimeUnit.MICROSECONDS).threads(sizes.get("--threads"));
    options.param("kind", kind.name()).param("url", url).param("keys", String.valueOf(sizes.get("--keys")));
    TimeValue time = TimeValue.milliseconds(sizes.get("--ms"));
    options.forks(1).warmupIterations(1).warmupTime(time).measurementIterations(1).measurementTime(time);
    options.verbosity(VerboseMode.SILENT).shouldFailOnError(true);
    measured.computeIfAbsent(kind, none -> new ArrayList<>()).add(new Runner(options.build()).runSingle().getPrimaryResult().getStatistics());
  }

  private void print() {
    Map<Kind, Integer> boundary = boundary();
    System.out.println("| | calls a second | beside the first | p99, ms | round trips of 1,000 calls | with a limit of 100 | commands of 1,000 | of 20 calls, at 10 a second |");
    System.out.println("|---|--:|--:|--:|--:|--:|--:|--:|");
    for (Kind kind : Kind.values()) {
      List<Double> beside = new ArrayList<>();
      for (int round = 0; round < sizes.get("--rounds"); round++) {
        beside.add(measured.get(Kind.LETTUCE).get(round).getMean() / measured.get(kind).get(round).getMean());
      }
      Counted all = count(kind, Calls.PLENTY);
      Counted few = count(kind, new Kind.Asked(FEW, Duration.ofHours(1), false));
      double rate = median(measured.get(kind).stream().map(one -> sizes.get("--threads") * 1e6 / one.getMean()).toList());
      double p99 = median(measured.get(kind).stream().map(one -> one.getPercentile(99) / 1_000).toList());
      System.out.printf(
          Locale.ROOT,
          "| %s | %,.0f | %.2f (%.2f to %.2f) | %.2f | %,d | %,d | %,d | %d |%n",
          kind.title,
          rate,
          median(beside),
          Collections.min(beside),
          Collections.max(beside),
          p99,
          all.reads(),
          few.reads(),
          all.commands(),
          boundary.get(kind));
    }
  }

  private static double median(List<Double> values) {
    List<Double> sorted = values.stream().sorted().toList();
    return (sorted.get((sorted.size() - 1) / 2) + sorted.get(sorted.size() / 2)) / 2;
  }

  /**
   * What a server did for calls: how often it read from sockets, and how many commands it ran, those of scripts among
   * them.
   */
  record Counted(long reads, long commands) {}

  private Counted count(Kind kind, Kind.Asked asked) {
    return count(kind, asked, url, CALLS);
  }

  static Counted count(Kind kind, Kind.Asked asked, String url, int calls) {
    try (JedisPooled redis = new JedisPooled(url);
        Subject subject = kind.open(url, asked)) {
      redis.flushDB();
      subject.allows("count"); // connections, scripts and settings are there
      long commands = commands(redis);
      long reads = reads(redis);
      for (int i = 0; i < calls; i++) {
        subject.allows("count");
      }
      return new Counted(reads(redis) - reads - 1, commands(redis) - commands - 3);
    }
  }

  private static long reads(JedisPooled redis) {
    return Long.parseLong(info(redis, "stats").lines().filter(line -> line.startsWith("total_reads_processed:")).findFirst().orElseThrow().split(":", 2)[1]);
  }

  private static long commands(JedisPooled redis) {
    return info(redis, "commandstats").lines().filter(line -> line.startsWith("cmdstat_")).mapToLong(line -> Long.parseLong(line.replaceFirst(".*:calls=(\\d+),.*", "$1"))).sum();
  }

  private static String info(JedisPooled redis, String section) {
    return new String((byte[]) redis.sendCommand(Protocol.Command.INFO, section), StandardCharsets.UTF_8);
  }

  /**
   * Tries each limiter at a boundary, all at once, and returns of all rounds the one whose calls were the least late.
   */
  private Map<Kind, Integer> boundary() {
    Map<Kind, Edge> best = new EnumMap<>(Kind.class);
    ExecutorService threads = Executors.newCachedThreadPool();
    for (int round = 0; round < sizes.get("--rounds"); round++) {
      String key = "edge:" + round;
      Map<Kind, CompletableFuture<Edge>> all = new EnumMap<>(Kind.class);
      for (Kind kind : Kind.values()) {
        all.put(kind, CompletableFuture.supplyAsync(() -> boundary(kind, url, key), threads));
      }
      all.forEach((kind, edge) -> best.merge(kind, edge.join(), (one, other) -> one.tookNs() <= other.tookNs() ? one : other));
    }
    threads.shutdown();
    Map<Kind, Integer> through = new EnumMap<>(Kind.class);
    best.forEach((kind, edge) -> through.put(kind, edge.through()));
    return through;
  }

  /**
   * How many of 20 calls got through within a second, and how long the last 19 took, which is 0.13 s if none is late.
   */
  record Edge(int through, long tookNs) {}

  /**
   * Makes 20 calls at a limit of 10 in a second. The first begins a second, by the clock and by windows that begin with
   * a call; 9 come right before its end, and 10 right after.
   */
  static Edge boundary(Kind kind, String url, String key) {
    try (Subject subject = kind.open(url, new Kind.Asked(10, Duration.ofSeconds(1), true))) {
      subject.allows("other"); // connections are there
      long second = System.currentTimeMillis() / 1_000 * 1_000 + 1_000;
      List<Long> through = new ArrayList<>();
      long began = 0;
      for (int i = 0; i < 20; i++) {
        sleepUntil(second + (i == 0 ? 5 : i < 10 ? 890 : 1_020));
        began = i == 1 ? System.nanoTime() : began;
        if (subject.allows(key + kind)) { // those of this package share what they keep
          through.add(System.nanoTime());
        }
      }
      long took = System.nanoTime() - began;
      long most = through.stream().mapToLong(from -> through.stream().filter(at -> at >= from && at - from < 1_000_000_000L).count()).max().orElse(0);
      return new Edge((int) most, took);
    }
  }

  private static void sleepUntil(long ms) {
    try {
      Thread.sleep(Math.max(0, ms - System.currentTimeMillis()));
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }
}
