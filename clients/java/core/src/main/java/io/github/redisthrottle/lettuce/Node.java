package io.github.redisthrottle.lettuce;

import io.github.redisthrottle.OutageException;
import io.github.redisthrottle.OverloadException;
import io.github.redisthrottle.connection.Command;
import io.github.redisthrottle.connection.ErrorReply;
import io.github.redisthrottle.connection.Pulse;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.codec.StringCodec;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * A server, and the connection that calls share. Lettuce does not connect again by itself, since it would send again
 * what was under way: the next call connects.
 */
final class Node {
  // In capitals Lettuce has outputs of its own for them.
  private static final Command MULTI = new Command(List.of("multi"), null);
  private static final Command EXEC = new Command(List.of("exec"), null);

  /** How long one waits for a connection before the first call needs it. */
  static final long WARM_UP_MS = 2000;
  private static final long UNBLOCK_PAUSE_MS = 20;
  private static final int UNBLOCKS = 100;
  private static final long ID_S = 60; // until a server tells no more which connection a caller has left
  private static final int CONNECTS = 5;
  private static final long SILENT_NS = TimeUnit.SECONDS.toNanos(5);
  private static final long LATELY_NS = TimeUnit.SECONDS.toNanos(2);
  private static final int MOST = 10_000; // calls under way

  private final RedisClient client;
  private final RedisURI uri;
  private final long timeoutMs;
  private final Addresses addresses;
  private final Deadlines deadlines;
  private final String name;
  private final String address;
  private final AtomicReference<@Nullable CompletableFuture<Link>> shared = new AtomicReference<>();
  private final AtomicInteger underWay = new AtomicInteger();

  /** When the connection that is shared was begun. */
  private volatile long began = System.nanoTime();

  private volatile boolean isSilent;
  private volatile long silent;
  private volatile long answered = System.nanoTime();

  Node(RedisClient client, Addresses addresses, RedisURI uri, long timeoutMs) {
    this.client = client;
    this.addresses = addresses;
    this.uri = uri;
    this.timeoutMs = timeoutMs;
    this.deadlines = new Deadlines(TimeUnit.MILLISECONDS.toNanos(timeoutMs));
    this.name = LettuceErrors.name(uri);
    this.address = LettuceErrors.address(uri);
  }

  /** Returns what errors call it. */
  String name() {
    return name;
  }

  /** Returns the address, without a user and a password. */
  @Override
  public String toString() {
    return address;
  }

  RedisURI uri() {
    return uri;
  }

  /** Returns whether it has just answered a call with nothing. */
  boolean isSilent() {
    return isSilent && System.nanoTime() - silent < SILENT_NS;
  }

  /** Sends commands over the connection that is shared, and returns the reply to the last one. */
  CompletableFuture<Object> send(Command... commands) {
    if (underWay.incrementAndGet() > MOST) {
      underWay.decrementAndGet();
      return CompletableFuture.failedFuture(new OverloadException(name() + ": " + MOST + " calls of this process wait for replies", null));
    }
    Flight flight = new Flight(name, deadlines, underWay, this::pulse);
    flight.reply.whenComplete(
        (value, error) -> {
          flight.ended();
          underWay.decrementAndGet();
          if (error == null) {
            isSilent = false;
            answered = System.nanoTime();
          } else if (!(error instanceof OverloadException || error instanceof CancellationException)) {
            isSilent = true;
            silent = System.nanoTime();
          }
          // The network may have lost it. One that is still being made may take longer than a call waits, on a busy
          // machine.
          CompletableFuture<Link> over = flight.connecting;
          if ((error instanceof OutageException || flight.isDeaf())
              && over != null
              && (over.isDone() || System.nanoTime() - began > TimeUnit.MILLISECONDS.toNanos(WARM_UP_MS))) {
            drop(over);
          }
        });
    send(flight, commands);
    return flight.reply;
  }

  private void send(Flight flight, Command... commands) {
    CompletableFuture<Link> connecting = connection();
    flight.connecting = connecting;
    if (connecting.isDone() && !connecting.isCompletedExceptionally()) {
      send(connecting.join(), flight, commands);
      return;
    }
    connecting.whenComplete(
        (link, error) -> {
          if (error != null) {
            flight.reply.completeExceptionally(error);
          } else {
            send(link, flight, commands);
          }
        });
  }

  private void send(Link link, Flight flight, Command... commands) {
    if (link.takes(flight)) {
      link.send(flight, commands);
    } else { // another call has just left it
      send(flight, commands);
    }
  }

  /** Asks the server that a connection leads to for a sign of life; with null the one that is being connected to. */
  private CompletableFuture<Boolean> pulse(@Nullable Link link) {
    Pulse.Place place = place(link);
    return place == null
        ? CompletableFuture.completedFuture(System.nanoTime() - answered < LATELY_NS)
        : Pulse.of(place, Duration.ofMillis(timeoutMs));
  }

  /** Returns where a connection leads; null if that is not known: a Sentinel says it, or it is a path. */
  private Pulse.@Nullable Place place(@Nullable Link link) {
    if (link != null && link.address() != null) {
      return new Pulse.Place(link.address(), uri.isSsl());
    }
    boolean isFixed = uri.getSocket() == null && uri.getHost() != null && uri.getSentinels().isEmpty();
    return isFixed ? new Pulse.Place(InetSocketAddress.createUnresolved(uri.getHost(), uri.getPort()), uri.isSsl()) : null;
  }

  /**
   * Connects before the first call needs it. In a process that has just begun, the classes of Lettuce take longer to
   * load than a call may wait. A server that is away is none of its business.
   */
  void warmUp() {
    CompletableFuture<Object> reply = new CompletableFuture<>();
    connection()
        .whenComplete(
            (link, error) -> {
              if (error != null) {
                reply.complete(null);
              } else {
                link.send(reply, Command.ping(null));
              }
            });
    reply.completeOnTimeout(null, WARM_UP_MS, TimeUnit.MILLISECONDS).exceptionally(error -> null).join();
  }

  /**
   * Sends a command over a connection of its own, which is closed as soon as the future is completed. A caller that has
   * left has the server answer it now: closing the connection would lose what is on its way.
   */
  CompletableFuture<Object> sendAlone(CompletionStage<Void> left, Command... commands) {
    return sendAlone(new CompletableFuture<>(), link -> {}, left, commands);
  }

  /** As {@link #sendAlone}, and ends when the server where the caller waits gives no sign of life. */
  CompletableFuture<Object> sendWatched(CompletionStage<Void> left, Duration patience, Command... commands) {
    CompletableFuture<Object> reply = new CompletableFuture<>();
    CompletableFuture<Object> info = new CompletableFuture<>();
    AtomicReference<@Nullable Link> at = new AtomicReference<>();
    Pulse.watch(reply, patience, () -> sign(at.get(), Pulse.run(info.getNow(null)), patience));
    return sendAlone(
        reply,
        link -> {
          at.set(link);
          link.send(info, Pulse.WHO);
        },
        left,
        commands);
  }

  private CompletableFuture<?> sign(@Nullable Link link, String run, Duration patience) {
    Pulse.Place place = place(link);
    return place == null ? send(Command.ping(null)) : Pulse.expect(name(), place, run, patience, this::who);
  }

  /** Asks the server that a connection which is opened now leads to which one it is. */
  private CompletableFuture<Object> who() {
    CompletableFuture<Object> reply = new CompletableFuture<>();
    alone(reply, link -> link.send(reply, Pulse.WHO));
    return reply.completeOnTimeout(null, WARM_UP_MS, TimeUnit.MILLISECONDS);
  }

  private CompletableFuture<Object> sendAlone(
      CompletableFuture<Object> reply, Consumer<Link> first, CompletionStage<Void> left, Command... commands) {
    alone(
        reply,
        link -> {
          if (left.toCompletableFuture().isDone()) {
            reply.cancel(false);
            return;
          }
          first.accept(link);
          CompletableFuture<Object> id = new CompletableFuture<>();
          link.send(id, new Command(List.of("CLIENT", "ID"), null));
          link.send(reply, commands);
          left.whenComplete(
              (value, failed) -> {
                id.completeOnTimeout(null, ID_S, TimeUnit.SECONDS);
                id.whenComplete((number, refused) -> unblock(link, number, reply, UNBLOCKS));
              });
        });
    return reply;
  }

  /**
   * Sends commands in one transaction over a connection of its own, and returns what EXEC replies, or the error of what
   * is refused.
   */
  CompletableFuture<Object> sendAtomically(List<Command> commands) {
    Flight flight = new Flight(name, deadlines, underWay, this::pulse);
    CompletableFuture<Object> reply = flight.reply;
    reply.whenComplete((value, error) -> flight.ended());
    alone(
        reply,
        link -> {
          CompletableFuture<Object> begun = new CompletableFuture<>();
          if (!flight.begins(link)) {
            return;
          }
          link.send(begun, MULTI);
          begun.whenComplete(
              (ok, refused) -> {
                if (refused != null) {
                  reply.completeExceptionally(refused);
                } else if (ok instanceof ErrorReply) {
                  reply.complete(ok);
                } else {
                  flight.written();
                  queue(link, commands, reply);
                }
              });
        });
    return reply;
  }

  /** Opens a connection, which is closed with the reply. */
  private void alone(CompletableFuture<Object> reply, Consumer<Link> use) {
    connect()
        .whenComplete(
            (link, error) -> {
              if (error != null) {
                reply.completeExceptionally(error);
                return;
              }
              reply.whenComplete((value, failed) -> link.close());
              use.accept(link);
            });
  }

  /**
   * Sends the commands of a transaction. Replies come in their order, so the first error is that of what may not be
   * queued.
   */
  private static void queue(Link link, List<Command> commands, CompletableFuture<Object> reply) {
    for (Command command : commands) {
      CompletableFuture<Object> queued = new CompletableFuture<>();
      link.send(queued, command);
      queued.whenComplete(
          (ok, refused) -> {
            if (refused != null) {
              reply.completeExceptionally(refused);
            } else if (ok instanceof ErrorReply) {
              reply.complete(ok);
            }
          });
    }
    link.send(reply, EXEC);
  }

  /**
   * Has the server answer a caller that waits, again and again: the first time may overtake its command. Another
   * server, to which the address leads by now, would hit somebody else with that number.
   */
  private void unblock(Link link, @Nullable Object id, CompletableFuture<Object> reply, int times) {
    if (reply.isDone()) {
      return;
    }
    if (id == null || times == 0) { // the server does not tell, or does not answer
      reply.cancel(false);
      return;
    }
    connection()
        .whenComplete(
            (now, error) -> {
              if (error == null && Objects.equals(now.address(), link.address())) {
                unblockThere(link, id, reply, times);
              } else {
                reply.cancel(false);
              }
            });
  }

  private void unblockThere(Link link, Object id, CompletableFuture<Object> reply, int times) {
    send(new Command(List.of("CLIENT", "UNBLOCK", id.toString()), null))
        .whenComplete(
            (value, error) ->
                CompletableFuture.delayedExecutor(UNBLOCK_PAUSE_MS, TimeUnit.MILLISECONDS)
                    .execute(() -> unblock(link, error == null ? id : null, reply, times - 1)));
  }

  /** Leaves the connection, so that the next call connects again. */
  void drop() {
    drop(shared.get());
  }

  private void drop(@Nullable CompletableFuture<Link> connecting) {
    if (connecting != null && shared.compareAndSet(connecting, null)) {
      connecting.whenComplete(
          (link, error) -> {
            if (link != null) {
              link.leave();
            }
          });
    }
  }

  private CompletableFuture<Link> connection() {
    while (true) {
      CompletableFuture<Link> now = shared.get();
      boolean gone = now != null && (now.isCompletedExceptionally() || (now.isDone() && !now.join().isOpen()));
      if (now != null && !gone) {
        return now;
      }
      CompletableFuture<Link> next = new CompletableFuture<>();
      if (shared.compareAndSet(now, next)) {
        began = System.nanoTime();
        connect()
            .whenComplete(
                (link, error) -> {
                  if (error != null) {
                    next.completeExceptionally(error);
                  } else {
                    next.complete(link);
                  }
                });
        return next;
      }
    }
  }

  private CompletableFuture<Link> connect() {
    return connect(CONNECTS).thenApply(made -> new Link(made, addresses.take(made)));
  }

  /**
   * Connects, again if Lettuce does not say why it could not: a server that refuses at once may be done before it
   * looks.
   */
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
}
