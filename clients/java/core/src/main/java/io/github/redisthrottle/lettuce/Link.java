package io.github.redisthrottle.lettuce;

import io.github.redisthrottle.connection.Command;
import io.lettuce.core.ClientOptions;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.protocol.AsyncCommand;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import io.lettuce.core.protocol.RedisCommand;
import io.netty.buffer.ByteBuf;
import io.netty.util.concurrent.EventExecutor;
import io.netty.util.internal.ThreadExecutorMap;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.Nullable;

/** A connection, when it has heard of the server, and the loop that reads it. */
final class Link {
  /** How soon a loop looks again for something to do: it reads in between. */
  private static final long TURN_MS = 1;

  /** How many commands are written before they are flushed. Their time begins when they are written. */
  private static final int AT_ONCE = 100;

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

    Written(RedisCommand<String, String, Object> command, Flight flight) {
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
  private final Queue<RedisCommand<String, String, ?>> outgoing = new ConcurrentLinkedQueue<>();
  private final AtomicBoolean isFlushed = new AtomicBoolean(); // or about to be
  private final int atOnce;
  private volatile long heard = System.nanoTime();

  /** {@code address} is where it leads; null if that is not known. */
  Link(StatefulRedisConnection<String, String> connection, InetSocketAddress address) {
    this.connection = connection;
    this.address = address;
    // Several that exceed a queue which the application has bounded would all be refused.
    this.atOnce = connection.getOptions().getRequestQueueSize() == ClientOptions.DEFAULT_REQUEST_QUEUE_SIZE ? AT_ONCE : 1;
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
    EventExecutor at = loop;
    if (at == null) {
      write(List.of(command));
      return;
    }
    outgoing.add(command);
    if (!isFlushed.get() && isFlushed.compareAndSet(false, true)) {
      try {
        at.execute(this::flush);
      } catch (RejectedExecutionException e) { // it has ended, and its connection with it
        flush();
      }
    }
  }

  /** Writes what several threads have sent meanwhile at once: a wake of the loop and a system call serve them all. */
  private void flush() {
    isFlushed.set(false);
    List<RedisCommand<String, String, ?>> commands = new ArrayList<>();
    for (RedisCommand<String, String, ?> next = outgoing.poll(); next != null; next = outgoing.poll()) {
      commands.add(next);
      if (commands.size() == atOnce) {
        write(commands);
        commands = new ArrayList<>();
      }
    }
    write(commands);
  }

  private void write(List<RedisCommand<String, String, ?>> commands) {
    try {
      if (commands.size() == 1) {
        connection.dispatch(commands.get(0));
      } else if (!commands.isEmpty()) {
        connection.dispatch(commands);
      }
    } catch (RuntimeException e) {
      commands.forEach(command -> command.completeExceptionally(e));
    }
  }

  private io.lettuce.core.protocol.Command<String, String, Object> made(Command command) {
    CommandArgs<String, String> args = new CommandArgs<>(StringCodec.UTF8);
    List<String> words = command.words();
    for (int i = 1; i < words.size(); i++) {
      args.add(words.get(i));
    }
    return new io.lettuce.core.protocol.Command<>(new Word(words.get(0)), new ReplyOutput(this::hears), args);
  }
}
