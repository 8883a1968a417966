package io.github.redisthrottle;

import io.github.redisthrottle.connection.Command;
import io.github.redisthrottle.connection.Connection;
import io.github.redisthrottle.connection.ErrorReply;
import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.TimeUnit;

/**
 * Sends calls to Redis or Valkey over a client. It decides nothing itself. A server without the module is called by
 * functions of the library that the package carries, or by scripts; calls that wait need the module, or {@link #poll}.
 * The log has one line that says so.
 */
public final class Remote implements Decider, Inspector, AutoCloseable {
  private static final String INSPECT = "CL.INSPECT";

  private final Connection connection;
  private final Doors doors;
  private final long patienceMs;
  private final long pollNs;

  private Remote(Connection connection, Duration patience, Doors doors, long pollNs) {
    this.connection = connection;
    this.doors = doors;
    this.pollNs = pollNs;
    this.patienceMs = patience.toMillis();
    if (patienceMs <= 0) {
      throw new IllegalArgumentException("patience: " + patience + " is shorter than a millisecond");
    }
  }

  /** Returns one over a connection. A call that waits is given up when the server gives no sign of life for 3 s. */
  public static Remote over(Connection connection) {
    return over(connection, Commands.AUTO);
  }

  /** As {@link #over(Connection)}, and says what servers may be sent: by default what they have. */
  public static Remote over(Connection connection, Commands commands) {
    return over(connection, commands, Duration.ofSeconds(3));
  }

  /** As {@link #over(Connection, Commands)}, with another patience. */
  public static Remote over(Connection connection, Commands commands, Duration patience) {
    return new Remote(connection, patience, new Doors(connection, commands), 0);
  }

  /**
   * Returns one with which calls wait also where the server has no module: units of rates are reserved in order of
   * arrival, and for everything else the server is asked again, so that who asks at the right moment gets it. Without
   * this option such a call is a {@link MistakeException}. With the module it changes nothing.
   *
   * @param longest the longest pause between two questions, such as 200 ms
   */
  public Remote poll(Duration longest) {
    long ns = Durations.nanos(longest, "poll");
    if (ns < 1_000_000) {
      throw new IllegalArgumentException("poll: " + longest + " is shorter than a millisecond");
    }
    return new Remote(connection, Duration.ofMillis(patienceMs), doors, ns);
  }

  @Override
  public CompletionStage<Result> decide(Call call) {
    call.checked();
    if (!call.waits()) {
      return Stages.map(doors.send(Words.of(call), call.key()), reply -> read(call, reply));
    }
    if (call.verb() == Call.Verb.WAIT) {
      return waits(call);
    }
    // Most often a slot is free, and no connection of its own is needed; nobody is overtaken.
    return Stages.chain(decide(call.atOnce()), result -> result.limited() ? waits(call) : CompletableFuture.completedFuture(result));
  }

  @Override
  public CompletionStage<Inspection> inspect(String key) {
    return Stages.map(doors.send(List.of(INSPECT, Key.text(key, "key")), key), reply -> InspectionReply.read(told(INSPECT, reply)));
  }

  private CompletionStage<Result> waits(Call call) {
    if (doors.isWithoutModule(call.key())) {
      return Polling.of(this, call, pollNs);
    }
    CompletableFuture<Void> left = new CompletableFuture<>();
    CompletableFuture<Result> result = new CompletableFuture<>();
    CompletableFuture<Void> over = endInTime(call, result);
    result.whenComplete(
        (value, error) -> {
          over.cancel(false);
          left.complete(null);
        });
    Stages.copy(
        Stages.chain(
            doors.sendWaiting(Words.of(call), call.key(), left, Duration.ofMillis(patienceMs)),
            answer -> {
              if (doors.lacksModule(answer)) {
                over.cancel(false);
                CompletionStage<Result> polled = Polling.of(this, call, pollNs);
                Stages.cancels(result, polled);
                return polled;
              }
              Result read = read(call, answer);
              if (read.allowed()) {
                read.ifLost(() -> giveBack(call, read));
              }
              return CompletableFuture.completedFuture(read);
            }),
        result);
    return result;
  }

  /**
   * Ends a wait that the server has not ended in time, although it lives: the connection is lost. This process has read
   * what had arrived when it has an answer to another question.
   */
  private CompletableFuture<Void> endInTime(Call call, CompletableFuture<Result> result) {
    CompletableFuture<Void> over = new CompletableFuture<>();
    Duration longest = Objects.requireNonNull(call.maxWait());
    if (longest.compareTo(Durations.LONGEST_WAIT) < 0) {
      over.completeOnTimeout(null, longest.plusMillis(patienceMs).toNanos(), TimeUnit.NANOSECONDS);
      over.thenRun(
          () ->
              connection
                  .send(Command.ping(call.key()))
                  .whenComplete(
                      (pong, error) ->
                          result.completeExceptionally(
                              new OutageException(
                                  call.command() + ": no reply within " + patienceMs + " ms after the timeout, while the server is alive: the connection is lost",
                                  null))));
    }
    return over;
  }

  /** Gives back what came when its caller had left. The caller cannot be told of a failure. */
  void giveBack(Call call, Result result) {
    if (call.verb() == Call.Verb.LEASE) {
      decide(Call.release(call.key()).id(call.id()));
    } else if (result.granted() > 0) {
      decide(Call.one(Call.Verb.REFUND, call.keys().get(0)).cost(call.cost()));
    }
  }

  private static Result read(Call call, Object reply) {
    return Replies.result(call, told(call.command(), reply));
  }

  private static Object told(String command, Object reply) {
    if (reply instanceof ErrorReply error) {
      throw Errors.of(command, error);
    }
    return reply;
  }

  @Override
  public String nodeOf(String key) {
    return connection.nodeOf(key);
  }

  @Override
  public void close() {
    connection.close();
  }
}
