package io.github.redisthrottle.connection;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;

/**
 * A client of Redis or Valkey, as the limiter needs it. It is safe for use by several threads.
 *
 * <p>A command is sent once: one that charges units, and that is sent again because its reply was lost, would charge
 * twice. A redirection in a cluster is followed, since the server that sends it has run nothing.
 *
 * <p>A reply is a {@link Long}, a {@link String}, a {@link java.util.List} of replies, null, or an {@link ErrorReply}.
 * Without a reply the stage completes with an {@link io.github.redisthrottle.OutageException}, an
 * {@link io.github.redisthrottle.OverloadException} or a {@link io.github.redisthrottle.MistakeException}.
 */
public interface Connection extends AutoCloseable {
  /** Sends a command that is answered at once. */
  CompletionStage<Object> send(Command command);

  /**
   * Sends a command that is answered when its turn has come, which nobody else may have to wait for.
   *
   * @param left is completed when the caller has left. The wait on the server ends soon, and the stage completes with
   *     what the server answered at that moment, which may be that the turn has come, so that it can be given back
   */
  CompletionStage<Object> sendWaiting(Command command, CompletionStage<Void> left);

  /**
   * As {@link #sendWaiting(Command, CompletionStage)}. The stage completes with an
   * {@link io.github.redisthrottle.OutageException} when the server where the caller waits gives no sign of life for so
   * long. Here it is asked as {@link #send} does: a connection whose address may lead to another server meanwhile has
   * to ask the one where the caller waits.
   *
   * @param patience how long the server may say nothing: 1 ms or more
   */
  default CompletionStage<Object> sendWaiting(Command command, CompletionStage<Void> left, Duration patience) {
    CompletableFuture<Object> reply = sendWaiting(command, left).toCompletableFuture();
    Pulse.watch(reply, patience, () -> send(Command.ping(command.key())));
    return reply;
  }

  /**
   * Sends commands in one transaction, over a connection that nobody else uses meanwhile, to the server that has the
   * key of the first one.
   *
   * <p>The stage completes with the list that EXEC replies, or with the {@link ErrorReply} to the first command that
   * may not be queued. Where MULTI is refused nothing else is sent, since the commands would run one by one.
   */
  CompletionStage<Object> sendAtomically(List<Command> commands);

  /**
   * Returns the name of the server of a cluster that has a key; empty where there is one server, or while it is not
   * known.
   */
  default String nodeOf(String key) {
    return "";
  }

  /** Closes what this connection has opened. */
  @Override
  void close();
}
