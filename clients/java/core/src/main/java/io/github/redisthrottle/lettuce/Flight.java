package io.github.redisthrottle.lettuce;

import io.github.redisthrottle.OutageException;
import io.github.redisthrottle.OverloadException;
import io.github.redisthrottle.ThrottleException;
import java.time.Duration;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * A call that is under way, and when it is given up. Time in which this process was too busy to send it, or to read
 * what has arrived, does not count. A reply that is late while the server answers other calls is an overload, and no
 * outage. So is everything that is late while the server gives a sign of life.
 */
final class Flight {
  /** How late this process may be without a reason to wait any longer. */
  private static final long SLACK_NS = TimeUnit.MILLISECONDS.toNanos(10);

  /** How long a call takes at most, besides its timeout, in a process that is late again and again. */
  private static final long MOST_NS = TimeUnit.SECONDS.toNanos(5);

  /** With so many calls under way a server, too, may be busy for so long besides the timeout. */
  private static final int MANY = 100;

  private static final long SILENCE_NS = TimeUnit.SECONDS.toNanos(2);

  private enum Stage {
    CONNECTING,
    SENT,
    GIVEN_UP
  }

  final CompletableFuture<Object> reply = new CompletableFuture<>();
  volatile @Nullable CompletableFuture<Link> connecting; // the connection that it waits for, or goes over
  private final String name; // of the server
  private final AtomicInteger underWay;
  private final Function<@Nullable Link, CompletableFuture<Boolean>> pulse;
  private final Deadlines deadlines;
  private final Deadlines.Entry deadline = new Deadlines.Entry(this::overdue);
  private final long timeoutNs;
  private final long began = System.nanoTime();
  private final AtomicReference<Stage> stage = new AtomicReference<>(Stage.CONNECTING);
  private volatile @Nullable Link link;
  private volatile boolean isWritten;
  private volatile boolean isDeaf;
  private volatile long written;
  private volatile long due;

  /**
   * Begins one.
   *
   * @param underWay the number of calls under way to the same server
   * @param pulse asks the server that a connection leads to for a sign of life; with null the one that is being
   *     connected to
   */
  Flight(String name, Deadlines deadlines, AtomicInteger underWay, Function<@Nullable Link, CompletableFuture<Boolean>> pulse) {
    this.name = name;
    this.underWay = underWay;
    this.pulse = pulse;
    this.deadlines = deadlines;
    this.timeoutNs = deadlines.timeoutNs();
    this.due = began + timeoutNs;
    deadlines.add(deadline);
  }

  /** Says that nobody waits any more. */
  void ended() {
    deadlines.remove(deadline);
  }

  /** Says that there is a connection for it. Returns false if nobody waits any more. */
  boolean begins(Link over) {
    link = over;
    return !reply.isDone() && stage.compareAndSet(Stage.CONNECTING, Stage.SENT);
  }

  /** Says that its bytes are on their way. */
  void written() {
    written = System.nanoTime();
    isWritten = true;
  }

  boolean isWritten() {
    return isWritten;
  }

  /** Returns whether its connection says nothing, though the server is alive. */
  boolean isDeaf() {
    return isDeaf;
  }

  private void await(long ns) {
    due = System.nanoTime() + ns;
    var task = Deadlines.TIMER.schedule(this::overdue, ns, TimeUnit.NANOSECONDS);
    reply.whenComplete((value, error) -> task.cancel(false));
  }

  private void overdue() {
    if (reply.isDone()) {
      return;
    }
    long asked = System.nanoTime();
    long late = asked - due;
    if (late > SLACK_NS && asked - began < timeoutNs + MOST_NS) { // this process stood still
      await(Math.min(late, timeoutNs));
      return;
    }
    Link over = link;
    if (over == null) {
      giveUp();
      return;
    }
    over.turn(() -> judge(asked));
    // Whoever blocks the loop keeps it from taking its turn.
    var last = Deadlines.TIMER.schedule(this::giveUpBusy, MOST_NS, TimeUnit.NANOSECONDS);
    reply.whenComplete((value, error) -> last.cancel(false));
  }

  /** Decides, when the process has read what had arrived, whether it waits any longer. */
  private void judge(long asked) {
    long now = System.nanoTime();
    long late = now - asked;
    long rest = Math.max(isWritten ? written + timeoutNs - now : timeoutNs, late > SLACK_NS ? late : 0);
    if (reply.isDone()) {
      return;
    }
    if (rest > 0 && now - began < timeoutNs + MOST_NS) {
      await(Math.min(rest, timeoutNs));
    } else {
      giveUp();
    }
  }

  private void giveUp() {
    boolean isConnecting = stage.get() == Stage.CONNECTING;
    if (isConnecting) {
      pulse.apply(null).thenAccept(this::connectsStill);
    } else if (isWritten && isSilent()) {
      pulse.apply(link).thenAccept(this::isWithoutReply);
    } else {
      giveUpBusy();
    }
  }

  /** A server that is alive is connected to as soon as this process gets round to it. */
  private void connectsStill(boolean isAlive) {
    if (isAlive && System.nanoTime() - began < timeoutNs + MOST_NS) {
      await(timeoutNs);
    } else if (!stage.compareAndSet(Stage.CONNECTING, Stage.GIVEN_UP)) {
      await(timeoutNs); // it has just been sent
    } else if (isAlive) {
      fail(new OverloadException(name + ": no connection within " + timeout() + ": this process is too busy to connect", null, false));
    } else {
      fail(new OutageException(name + ": no answer within " + timeout() + ": no connection", null, false));
    }
  }

  private void isWithoutReply(boolean isAlive) {
    if (isAlive) {
      isDeaf = isSilent();
      giveUpBusy();
    } else {
      fail(new OutageException(name + ": no reply within " + timeout(), null));
    }
  }

  /**
   * Returns whether the server answers nothing. One that many calls are under way to may take a while between two
   * replies.
   */
  private boolean isSilent() {
    boolean isFlood = underWay.get() >= MANY;
    return !Objects.requireNonNull(link).hasHeardSince(isFlood ? System.nanoTime() - timeoutNs - SILENCE_NS : written);
  }

  private void giveUpBusy() {
    fail(new OverloadException(name + ": no reply within " + timeout() + ": this process asks for more than it can send and read", null, true));
  }

  private void fail(ThrottleException error) {
    reply.completeExceptionally(error);
  }

  private String timeout() {
    return Duration.ofNanos(timeoutNs).toMillis() + " ms";
  }
}
