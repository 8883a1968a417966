package io.github.redisthrottle.lettuce;

import io.github.redisthrottle.connection.Command;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.protocol.AsyncCommand;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import io.netty.buffer.ByteBuf;
import io.netty.util.concurrent.EventExecutor;
import io.netty.util.internal.ThreadExecutorMap;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.Nullable;

/** A connection, when it has heard of the server, and the loop that reads it. */
final class Link {
  /** How soon a loop looks again for something to do: it reads in between. */
  private static final long TURN_MS = 1;

  /** The name of a command. */
  private record Word(String text) implements ProtocolKeyword {
    @Override
    public byte[] getBytes() {
      return text.getBytes(StandardCharsets.UTF_8);
    }

    @Override
    public String toString() {
      return text;
    }
  }

  /** A command that tells when it is written, which the loop does. */
  private final class Written extends AsyncCommand<String, String, Object> {
    private final Flight flight;

    Written(io.lettuce.core.protocol.RedisCommand<String, String, Object> command, Flight flight) {
      super(command);
      this.flight = flight;
    }

    @Override
    public void encode(ByteBuf buffer) {
      if (loop == null) {
        loop = ThreadExecutorMap.currentExecutor();
      }
      flight.written();
      super.encode(buffer);
    }
  }

  private final StatefulRedisConnection<String, String> connection;
  private final InetSocketAddress address;
  private final AtomicInteger users = new AtomicInteger(1); // whoever made it, and the calls that are under way
  private volatile @Nullable EventExecutor loop;
  private volatile long heard = System.nanoTime();

  /** {@code address} is where it leads; null if that is not known. */
  Link(StatefulRedisConnection<String, String> connection, InetSocketAddress address) {
    this.connection = connection;
    this.address = address;
  }

  InetSocketAddress address() {
    return address;
  }

  /**
   * Notes a call that is about to be sent, until it has ended. Returns false if the connection is closed, because it
   * was left.
   */
  boolean takes(Flight flight) {
    if (users.getAndUpdate(count -> count == 0 ? 0 : count + 1) == 0) {
      return false;
    }
    flight.reply.whenComplete((value, error) -> leave());
    return true;
  }

  /** Closes the connection as soon as no call is under way: what this one waits for in vain, others may have got. */
  void leave() {
    if (users.decrementAndGet() == 0) {
      close();
    }
  }

  boolean isOpen() {
    return connection.isOpen();
  }

  void close() {
    connection.closeAsync();
  }

  /** Says that the server has answered something. */
  void hears() {
    heard = System.nanoTime();
  }

  boolean hasHeardSince(long ns) {
    return heard - ns > 0;
  }

  /** Runs something when the loop has read what has arrived. */
  void turn(Runnable next) {
    EventExecutor at = loop;
    try {
      if (at != null) {
        at.schedule(next, TURN_MS, TimeUnit.MILLISECONDS);
        return;
      }
    } catch (RejectedExecutionException e) {
      // It has ended, and its connection with it.
    }
    next.run();
  }

  /** Sends the commands of a call. The last reply is that of the call. */
  void send(Flight flight, Command... commands) {
    if (!flight.begins(this)) {
      return;
    }
    for (int i = 0; i < commands.length; i++) {
      AsyncCommand<String, String, Object> sent = new Written(made(commands[i]), flight);
      flight.reply.whenComplete(
          (value, error) -> {
            if (!flight.isWritten()) { // nobody waits for it any more
              sent.cancel(false);
            }
          });
      dispatch(sent, i == commands.length - 1 ? flight.reply : new CompletableFuture<>());
    }
  }

  /** Sends a command that takes as long as it takes. */
  void send(CompletableFuture<Object> reply, Command... commands) {
    for (int i = 0; i < commands.length; i++) {
      dispatch(new AsyncCommand<>(made(commands[i])), i == commands.length - 1 ? reply : new CompletableFuture<>());
    }
  }

  private void dispatch(AsyncCommand<String, String, Object> command, CompletableFuture<Object> reply) {
    command.whenComplete(
        (value, error) -> {
          if (error != null) {
            reply.completeExceptionally(error);
          } else {
            reply.complete(value);
          }
        });
    try {
      connection.dispatch(command);
    } catch (RuntimeException e) {
      reply.completeExceptionally(e);
    }
  }

  private io.lettuce.core.protocol.Command<String, String, Object> made(Command command) {
    CommandArgs<String, String> args = new CommandArgs<>(StringCodec.UTF8);
    command.words().stream().skip(1).forEach(args::add);
    return new io.lettuce.core.protocol.Command<>(new Word(command.words().get(0)), new ReplyOutput(this::hears), args);
  }
}
