package io.github.redisthrottle;

import io.github.redisthrottle.connection.Command;
import io.github.redisthrottle.connection.Connection;
import io.github.redisthrottle.connection.ErrorReply;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;

/** Sends calls to Redis or Valkey with the module, over a client. It decides nothing itself. */
public final class Remote implements Decider, AutoCloseable {
  private final Connection connection;
  private final long patienceMs;

  private Remote(Connection connection, Duration patience) {
    this.connection = connection;
    this.patienceMs = patience.toMillis();
    if (patienceMs <= 0) {
      throw new IllegalArgumentException("patience: " + patience + " is shorter than a millisecond");
    }
  }

  /** Returns one over a connection. A call that waits is given up when the server gives no sign of life for 3 s. */
  public static Remote over(Connection connection) {
    return over(connection, Duration.ofSeconds(3));
  }

  /** As {@link #over(Connection)}, with another patience. */
  public static Remote over(Connection connection, Duration patience) {
    return new Remote(connection, patience);
  }

  @Override
  public CompletionStage<Result> decide(Call call) {
    call.checked();
    if (!call.waits()) {
      return Stages.map(connection.send(command(call)), reply -> read(call, reply));
    }
    if (call.verb() == Call.Verb.WAIT) {
      return waits(call);
    }
    // Most often a slot is free, and no connection of its own is needed; nobody is overtaken.
    return Stages.chain(decide(call.atOnce()), result -> result.limited() ? waits(call) : CompletableFuture.completedFuture(result));
  }

  private CompletionStage<Result> waits(Call call) {
    CompletableFuture<Object> reply = connection.sendWaiting(command(call)).toCompletableFuture();
    watch(call, reply);
    return Stages.map(reply, answer -> read(call, answer));
  }

  /** Asks the server for a sign of life while a call waits. Any reply is one, and so is a process that is busy. */
  private void watch(Call call, CompletableFuture<Object> waiting) {
    Executor later = CompletableFuture.delayedExecutor(patienceMs, TimeUnit.MILLISECONDS);
    later.execute(
        () -> {
          if (waiting.isDone()) {
            return;
          }
          connection
              .send(Command.ping(call.key()))
              .whenComplete(
                  (reply, error) -> {
                    if (Errors.unwrapped(error) instanceof OutageException outage) {
                      waiting.completeExceptionally(outage);
                    } else {
                      watch(call, waiting);
                    }
                  });
        });
  }

  private static Command command(Call call) {
    return new Command(Words.of(call), call.key());
  }

  private static Result read(Call call, Object reply) {
    if (reply instanceof ErrorReply error) {
      throw Errors.of(call.command(), error);
    }
    return Replies.result(call, reply);
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
