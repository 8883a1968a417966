package io.github.redisthrottle.lettuce;

import io.github.redisthrottle.connection.Command;
import io.github.redisthrottle.connection.ErrorReply;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.protocol.AsyncCommand;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;

/**
 * A server, and the connection that calls share. Lettuce does not connect again by itself, since it would send again what was under
 * way: the next call connects.
 */
final class Node {
  /** The name of a command. */
  private static final class Word implements ProtocolKeyword {
    private final String text;

    Word(String text) {
      this.text = text;
    }

    @Override
    public byte[] getBytes() {
      return text.getBytes(StandardCharsets.UTF_8);
    }

    @Override
    public String toString() {
      return text;
    }
  }

  // In capitals Lettuce has outputs of its own for them.
  private static final Command MULTI = new Command(List.of("multi"), null);
  private static final Command EXEC = new Command(List.of("exec"), null);

  private static final long WARM_UP_MS = 2000;
  private static final long UNBLOCK_PAUSE_MS = 20;
  private static final int UNBLOCKS = 100;
  private static final int CONNECTS = 5;

  private final RedisClient client;
  private final RedisURI uri;
  private final long timeoutMs;
  private final AtomicReference<CompletableFuture<StatefulRedisConnection<String, String>>> shared = new AtomicReference<>();
  private volatile long heard = System.nanoTime();

  /** When the connection that is shared was begun. */
  private volatile long began = System.nanoTime();

  Node(RedisClient client, RedisURI uri, long timeoutMs) {
    this.client = client;
    this.uri = uri;
    this.timeoutMs = timeoutMs;
  }

  /** Sends commands over the connection that is shared, and returns the reply to the last one. */
  CompletableFuture<Object> send(Command... commands) {
    CompletableFuture<Object> reply = new CompletableFuture<>();
    CompletableFuture<StatefulRedisConnection<String, String>> connecting = connection();
    long sent = System.nanoTime();
    connecting.whenComplete(
        (connection, error) -> {
          if (error != null) {
            reply.completeExceptionally(error);
          } else if (!reply.isDone()) { // nobody waits for it otherwise
            dispatch(connection, reply, commands);
          }
        });
    reply.whenComplete((value, error) -> heard = error == null ? System.nanoTime() : heard);
    return reply
        .orTimeout(timeoutMs, TimeUnit.MILLISECONDS)
        .whenComplete(
            (value, error) -> {
              // The network may have lost it. One that is still being made may take longer than a call waits, on a busy machine.
              boolean isSlow = connecting.isDone() || System.nanoTime() - began > TimeUnit.MILLISECONDS.toNanos(WARM_UP_MS);
              if (error instanceof java.util.concurrent.TimeoutException && heard - sent < 0 && isSlow) {
                drop(connecting);
              }
            });
  }

  /**
   * Connects before the first call needs it. In a process that has just begun, the classes of Lettuce take longer to load than a call may
   * wait. A server that is away is none of its business.
   */
  void warmUp() {
    CompletableFuture<Object> reply = new CompletableFuture<>();
    connection()
        .whenComplete(
            (connection, error) -> {
              if (error != null) {
                reply.complete(null);
              } else {
                dispatch(connection, reply, Command.ping(null));
              }
            });
    reply.completeOnTimeout(null, WARM_UP_MS, TimeUnit.MILLISECONDS).exceptionally(error -> null).join();
  }

  /**
   * Sends a command over a connection of its own, which is closed as soon as the future is completed. A caller that has left has the server
   * answer it now: closing the connection would lose what is on its way.
   */
  CompletableFuture<Object> sendAlone(CompletionStage<Void> left, Command... commands) {
    CompletableFuture<Object> reply = new CompletableFuture<>();
    alone(
        reply,
        connection -> {
          if (left.toCompletableFuture().isDone()) {
            reply.cancel(false);
            return;
          }
          CompletableFuture<Object> id = new CompletableFuture<>();
          dispatch(connection, id, new Command(List.of("CLIENT", "ID"), null));
          dispatch(connection, reply, commands);
          left.whenComplete((value, failed) -> id.whenComplete((number, refused) -> unblock(number, reply, UNBLOCKS)));
        });
    return reply;
  }

  /** Sends commands in one transaction over a connection of its own, and returns what EXEC replies, or the error of what is refused. */
  CompletableFuture<Object> sendAtomically(List<Command> commands) {
    CompletableFuture<Object> reply = new CompletableFuture<>();
    alone(
        reply,
        connection -> {
          CompletableFuture<Object> begun = new CompletableFuture<>();
          dispatch(connection, begun, MULTI);
          begun.whenComplete(
              (ok, refused) -> {
                if (refused != null) {
                  reply.completeExceptionally(refused);
                } else if (ok instanceof ErrorReply) {
                  reply.complete(ok);
                } else {
                  queue(connection, commands, reply);
                }
              });
        });
    return reply.orTimeout(timeoutMs, TimeUnit.MILLISECONDS);
  }

  /** Opens a connection, which is closed with the reply. */
  private void alone(CompletableFuture<Object> reply, Consumer<StatefulRedisConnection<String, String>> use) {
    connect()
        .whenComplete(
            (connection, error) -> {
              if (error != null) {
                reply.completeExceptionally(error);
                return;
              }
              reply.whenComplete((value, failed) -> connection.closeAsync());
              use.accept(connection);
            });
  }

  /** Sends the commands of a transaction. Replies come in their order, so the first error is that of what may not be queued. */
  private static void queue(StatefulRedisConnection<String, String> connection, List<Command> commands, CompletableFuture<Object> reply) {
    for (Command command : commands) {
      CompletableFuture<Object> queued = new CompletableFuture<>();
      dispatch(connection, queued, command);
      queued.whenComplete(
          (ok, refused) -> {
            if (refused != null) {
              reply.completeExceptionally(refused);
            } else if (ok instanceof ErrorReply) {
              reply.complete(ok);
            }
          });
    }
    dispatch(connection, reply, EXEC);
  }

  /** Has the server answer a caller that waits, again and again: the first time may overtake its command. */
  private void unblock(Object id, CompletableFuture<Object> reply, int times) {
    if (reply.isDone()) {
      return;
    }
    if (id == null || times == 0) { // the server does not tell, or does not answer
      reply.cancel(false);
      return;
    }
    send(new Command(List.of("CLIENT", "UNBLOCK", id.toString()), null))
        .whenComplete(
            (value, error) ->
                CompletableFuture.delayedExecutor(UNBLOCK_PAUSE_MS, TimeUnit.MILLISECONDS)
                    .execute(() -> unblock(error == null ? id : null, reply, times - 1)));
  }

  /** Closes the connection, so that the next call connects again. */
  void drop() {
    drop(shared.get());
  }

  private void drop(CompletableFuture<StatefulRedisConnection<String, String>> connecting) {
    if (connecting != null && shared.compareAndSet(connecting, null)) {
      connecting.whenComplete(
          (connection, error) -> {
            if (connection != null) {
              connection.closeAsync();
            }
          });
    }
  }

  private CompletableFuture<StatefulRedisConnection<String, String>> connection() {
    while (true) {
      CompletableFuture<StatefulRedisConnection<String, String>> now = shared.get();
      boolean gone = now != null && (now.isCompletedExceptionally() || (now.isDone() && !now.join().isOpen()));
      if (now != null && !gone) {
        return now;
      }
      CompletableFuture<StatefulRedisConnection<String, String>> next = new CompletableFuture<>();
      if (shared.compareAndSet(now, next)) {
        began = System.nanoTime();
        connect()
            .whenComplete(
                (connection, error) -> {
                  if (error != null) {
                    next.completeExceptionally(error);
                  } else {
                    next.complete(connection);
                  }
                });
        return next;
      }
    }
  }

  private CompletableFuture<StatefulRedisConnection<String, String>> connect() {
    return connect(CONNECTS);
  }

  /** Connects, again if Lettuce does not say why it could not: a server that refuses at once may be done before it looks. */
  private CompletableFuture<StatefulRedisConnection<String, String>> connect(int times) {
    CompletableFuture<StatefulRedisConnection<String, String>> connecting;
    try {
      connecting = client.connectAsync(StringCodec.UTF8, uri).toCompletableFuture();
    } catch (RuntimeException e) {
      return CompletableFuture.failedFuture(e);
    }
    return connecting.exceptionallyCompose(
        error -> times > 1 && LettuceErrors.isUntold(error) ? connect(times - 1) : CompletableFuture.failedFuture(error));
  }

  private static void dispatch(
      StatefulRedisConnection<String, String> connection, CompletableFuture<Object> reply, Command... commands) {
    try {
      for (int i = 0; i < commands.length; i++) {
        AsyncCommand<String, String, Object> sent = made(commands[i]);
        if (i == commands.length - 1) {
          sent.whenComplete(
              (value, error) -> {
                if (error != null) {
                  reply.completeExceptionally(error);
                } else {
                  reply.complete(value);
                }
              });
        }
        connection.dispatch(sent);
      }
    } catch (RuntimeException e) {
      reply.completeExceptionally(e);
    }
  }

  private static AsyncCommand<String, String, Object> made(Command command) {
    CommandArgs<String, String> args = new CommandArgs<>(StringCodec.UTF8);
    command.words().stream().skip(1).forEach(args::add);
    return new AsyncCommand<>(
        new io.lettuce.core.protocol.Command<>(new Word(command.words().get(0)), new ReplyOutput(), args));
  }
}
