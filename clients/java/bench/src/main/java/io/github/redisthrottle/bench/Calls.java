package io.github.redisthrottle.bench;

import java.time.Duration;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;

/** How long a call takes that is let through. JMH makes it in several threads, one after the other in each. */
@State(Scope.Benchmark)
public class Calls {
  static final Kind.Asked PLENTY = new Kind.Asked(1_000_000, Duration.ofSeconds(1), false);

  /** A {@link Kind}. */
  @Param("LETTUCE")
  public String kind;

  /** The server's address. */
  @Param("redis://127.0.0.1:6379")
  public String url;

  /** How many keys the calls go to. */
  @Param("100")
  public int keys;

  private Subject subject;

  /** The number of a thread's next key. */
  @State(Scope.Thread)
  public static class Turn {
    private int next;
  }

  /** Connects. */
  @Setup
  public void open() {
    subject = Kind.valueOf(kind).open(url, PLENTY);
  }

  /** Ends the connections. */
  @TearDown
  public void close() {
    subject.close();
  }

  /** Makes a call. */
  @Benchmark
  public boolean call(Turn turn) {
    turn.next = (turn.next + 1) % keys;
    return subject.allows(kind + turn.next);
  }
}
