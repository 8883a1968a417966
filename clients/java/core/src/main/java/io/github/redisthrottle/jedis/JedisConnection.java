package io.github.redisthrottle.jedis;

import io.github.redisthrottle.OverloadException;
import io.github.redisthrottle.ThrottleException;
import io.github.redisthrottle.connection.Command;
import io.github.redisthrottle.connection.ErrorReply;
import io.github.redisthrottle.connection.Pulse;
import io.github.redisthrottle.connection.Together;
import java.net.URI;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import java.util.function.Supplier;
import javax.net.ssl.SSLParameters;
import org.jspecify.annotations.Nullable;
import redis.clients.jedis.Connection;
import redis.clients.jedis.ConnectionPool;
import redis.clients.jedis.ConnectionPoolConfig;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisClientConfig;
import redis.clients.jedis.exceptions.JedisAskDataException;
import redis.clients.jedis.exceptions.JedisConnectionException;
import redis.clients.jedis.exceptions.JedisException;
import redis.clients.jedis.exceptions.JedisMovedDataException;
import redis.clients.jedis.exceptions.JedisRedirectionException;
import redis.clients.jedis.providers.ClusterConnectionProvider;
import redis.clients.jedis.providers.ConnectionProvider;
import redis.clients.jedis.providers.PooledConnectionProvider;
import redis.clients.jedis.util.JedisClusterCRC16;
import redis.clients.jedis.util.JedisURIHelper;
import redis.clients.jedis.util.Pool;

/**
 * Calls over Jedis 5 and later. It takes a connection of a {@link ConnectionProvider} for each call, and sends a call
 * once: the executors of a cluster's client repeat what fails.
 *
 * <pre>{@code
 * Limiter limiter = Limiter.over(JedisConnection.of(URI.create("redis://127.0.0.1:6379")));
 * }</pre>
 *
 * <p>Jedis blocks, so a call runs in the thread of its caller, also one that is asynchronous, unless you give an
 * executor. A call that waits for its turn has a connection of its own meanwhile, opened as those of the pool, in a
 * thread of its own: 1,000 at most.
 */
public final class JedisConnection implements io.github.redisthrottle.connection.Connection {
  private static final Duration TIMEOUT = Duration.ofMillis(200);
  private static final Duration ROOM = Duration.ofSeconds(1);
  private static final int REDIRECTS = 5;
  private static final int WAITERS = 1000;
  private static final long MOST_NS = TimeUnit.SECONDS.toNanos(5); // connecting, in a process that is busy

  private final @Nullable ConnectionProvider provider;
  private final @Nullable Pool<Connection> pool;
  private final Executor executor;
  private final Runnable close;
  private final String name; // what errors call the only server; empty if it is not known, or not the only one
  private final Pulse.@Nullable Place only; // where that one is; null without it
  private final Map<Object, Long> heard = new ConcurrentHashMap<>(); // when a server has answered, by its pool
  private final Map<Object, Pulse.Place> places = new ConcurrentHashMap<>(); // where a server was, by its pool
  private final AtomicInteger waiting = new AtomicInteger();
  private final Consumer<List<Together.Sent>> sender = this::sendTogether;

  /** A caller in line; {@code patience} is null if somebody else watches the server. */
  private record Waiting(CompletableFuture<Object> reply, CompletionStage<Void> left, @Nullable Duration patience) {}

  private JedisConnection(Pulse.@Nullable Place only, @Nullable ConnectionProvider provider, @Nullable Pool<Connection> pool, Executor executor,
      Runnable close) {
    this.only = only;
    this.name = only == null ? "" : only.address().getHostString() + ":" + only.address().getPort() + (only.tls() ? " by TLS" : "");
    this.provider = provider;
    this.pool = pool;
    this.executor = executor;
    this.close = close;
  }

  /** Connects to a server with up to 16 connections, which fail within 200 ms. */
  public static JedisConnection of(URI uri) {
    return of(uri, TIMEOUT);
  }

  /**
   * Connects to a server with up to 16 connections.
   *
   * @param timeout how long a call waits for the server; a call that waits for its turn does not end by it
   */
  public static JedisConnection of(URI uri, Duration timeout) {
    if (!JedisURIHelper.isValid(uri)) {
      throw new IllegalArgumentException("uri must be such as redis://127.0.0.1:6379, with a port");
    }
    int timeoutMs = Math.toIntExact(timeout.toMillis());
    JedisClientConfig config =
        DefaultJedisClientConfig.builder()
            .connectionTimeoutMillis(timeoutMs)
            .socketTimeoutMillis(timeoutMs)
            .user(JedisURIHelper.getUser(uri))
            .password(JedisURIHelper.getPassword(uri))
            .database(JedisURIHelper.getDBIndex(uri))
            .ssl(JedisURIHelper.isRedisSSLScheme(uri))
            .sslParameters(verifying())
            .build();
    ConnectionPoolConfig pool = new ConnectionPoolConfig();
    pool.setMaxTotal(16);
    pool.setMaxIdle(16);
    PooledConnectionProvider provider = new PooledConnectionProvider(new HostAndPort(uri.getHost(), uri.getPort()), config, pool);
    Pulse.Place only = Peer.at(provider.getConnectionMap().keySet().iterator().next(), JedisURIHelper.isRedisSSLScheme(uri));
    return new JedisConnection(only, provider, provider.getPool(), Runnable::run, provider::close);
  }

  /** By itself Jedis takes any certificate that is trusted for that of the server. */
  private static SSLParameters verifying() {
    SSLParameters parameters = new SSLParameters();
    parameters.setEndpointIdentificationAlgorithm("HTTPS");
    return parameters;
  }

  /**
   * Calls over the pool of a client of yours, with its timeouts: {@code over(client.getPool())} of a JedisPooled, or of
   * a RedisClient since Jedis 7. It stays yours to close.
   */
  public static JedisConnection over(Pool<Connection> yours) {
    return new JedisConnection(null, null, yours, Runnable::run, () -> {});
  }

  /**
   * Calls over the connections of a provider of yours, with its timeouts: a {@link PooledConnectionProvider}, a {@link
   * ClusterConnectionProvider} or a {@code SentineledConnectionProvider}. It stays yours to close.
   */
  public static JedisConnection over(ConnectionProvider yours) {
    return over(yours, Runnable::run);
  }

  /** As {@link #over(ConnectionProvider)}, in the threads of an executor, so that asynchronous calls never block. */
  public static JedisConnection over(ConnectionProvider yours, Executor executor) {
    Pool<Connection> pool = yours instanceof PooledConnectionProvider pooled ? pooled.getPool() : null;
    Object key = pool == null ? null : yours.getConnectionMap().keySet().iterator().next();
    return new JedisConnection(Peer.at(key, false), yours, pool, executor, () -> {});
  }

  @Override
  public CompletionStage<Object> send(Command command) {
    CompletableFuture<Object> collected = Together.collect(sender, command);
    if (collected != null) {
      return collected;
    }
    CompletableFuture<Object> reply = new CompletableFuture<>();
    execute(command, List.of(reply), () -> run(command, reply, null));
    return reply;
  }

  @Override
  public CompletionStage<Object> sendWaiting(Command command, CompletionStage<Void> left) {
    return sendWaiting(command, left, null);
  }

  @Override
  public CompletionStage<Object> sendWaiting(Command command, CompletionStage<Void> left, @Nullable Duration patience) {
    CompletableFuture<Object> reply = new CompletableFuture<>();
    if (waiting.incrementAndGet() > WAITERS) {
      waiting.decrementAndGet();
      return CompletableFuture.failedFuture(new OverloadException(command + ": " + WAITERS + " calls of this process wait for their turn", null));
    }
    reply.whenComplete((value, error) -> waiting.decrementAndGet());
    Waiting caller = new Waiting(reply, left, patience);
    Thread thread = new Thread(() -> run(command, reply, caller), "throttle-wait");
    thread.setDaemon(true);
    thread.start();
    return reply;
  }

  @Override
  public CompletionStage<Object> sendAtomically(List<Command> commands) {
    CompletableFuture<Object> reply = new CompletableFuture<>();
    execute(
        commands.get(0),
        List.of(reply),
        () -> {
          try (Taken taken = take(commands.get(0), null)) {
            reply.complete(transaction(taken, commands));
          } catch (RuntimeException e) {
            reply.completeExceptionally(translated(commands.get(0), e));
          }
        });
    return reply;
  }

  /** Sends something in a thread of the executor. Where that takes no more, it is an overload. */
  private void execute(Command command, List<CompletableFuture<Object>> replies, Runnable exchange) {
    try {
      executor.execute(exchange);
    } catch (RejectedExecutionException e) {
      OverloadException overload = new OverloadException(command + ": the executor takes no more calls", e);
      replies.forEach(reply -> reply.completeExceptionally(overload));
    }
  }

  private Object transaction(Taken taken, List<Command> commands) {
    Object refused = timed(taken, new Command(List.of("MULTI"), null));
    if (refused instanceof ErrorReply) {
      return refused;
    }
    refused = null;
    for (Command command : commands) {
      Object queued = timed(taken, command);
      refused = refused == null && queued instanceof ErrorReply ? queued : refused;
    }
    Object replies = timed(taken, new Command(List.of("EXEC"), null));
    return refused == null ? replies : refused;
  }

  @Override
  public String nodeOf(@Nullable String key) {
    if (!(provider instanceof ClusterConnectionProvider cluster)) {
      return "";
    }
    try {
      return Cluster.nodeOf(cluster, key);
    } catch (RuntimeException e) { // of a cluster that is not known
      return "";
    }
  }

  @Override
  public void close() {
    close.run();
  }

  private void run(Command command, CompletableFuture<Object> reply, @Nullable Waiting waiting) {
    if (reply.isDone()) { // its caller has left
      return;
    }
    try {
      reply.complete(exchange(command, waiting));
    } catch (RuntimeException e) {
      refreshAfter(e);
      reply.completeExceptionally(translated(command, e));
    }
  }

  private Object exchange(Command command, @Nullable Waiting waiting) {
    HostAndPort there = null;
    boolean asking = false;
    for (int redirects = REDIRECTS; ; redirects--) {
      try (Taken taken = waiting == null ? take(command, there) : takeBeside(command, there)) {
        if (asking) {
          taken.connection().executeCommand(Wire.arguments(new Command(List.of("ASKING"), null)));
        }
        return waiting == null ? timed(taken, command) : turn(taken, command, there, waiting);
      } catch (JedisRedirectionException e) {
        if (redirects == 0 || !(provider instanceof ClusterConnectionProvider cluster)) {
          return new ErrorReply(String.valueOf(e.getMessage()));
        }
        there = e.getTargetNode();
        asking = e instanceof JedisAskDataException;
        if (e instanceof JedisMovedDataException) {
          Cluster.refresh(cluster);
        }
      }
    }
  }

  private Object timed(Taken taken, Command command) {
    return timed(taken, command, () -> Wire.once(taken, command));
  }

  /**
   * Sends something. A reply that is late while others come, or while the server gives a sign of life, is an overload:
   * this process is busy, or the server.
   */
  private <T> T timed(Taken taken, Command command, Supplier<T> exchange) {
    Object server = taken.pool() == null ? this : taken.pool();
    long sent = System.nanoTime();
    try {
      T reply = exchange.get();
      heard.put(server, System.nanoTime());
      if (!places.containsKey(server)) {
        note(server, taken);
      }
      return reply;
    } catch (JedisConnectionException e) {
      if (!JedisErrors.isTimeout(e)) {
        throw e;
      }
      if (heard.getOrDefault(server, sent) - sent > 0) {
        throw new OverloadException(command + ": " + name + ": no reply in time, while others came", e, true);
      }
      taken.failed();
      note(server, taken);
      if (isAlive(places.get(server))) {
        throw new OverloadException(command + ": " + name + ": no reply in time, though the server is alive", e, true);
      }
      throw e;
    }
  }

  private void note(Object server, Taken taken) {
    Pulse.Place place = Peer.of(taken.connection());
    if (place != null) {
      places.put(server, place);
    }
  }

  /**
   * Asks a server for a sign of life. One whose place is not known has none. One that was never reached may speak TLS.
   */
  private static boolean isAlive(Pulse.@Nullable Place place) {
    return place != null && (Pulse.of(place, TIMEOUT).join() || (isUntried(place) && Pulse.of(new Pulse.Place(place.address(), true), TIMEOUT).join()));
  }

  private static boolean isUntried(Pulse.Place place) {
    return place.address().isUnresolved() && !place.tls();
  }

  /**
   * Waits for a turn. A caller that has left has the server answer now; where it does not, the connection is closed,
   * which ends the read and loses what is on its way.
   */
  private Object turn(Taken taken, Command command, @Nullable HostAndPort there, Waiting waiting) {
    Connection connection = taken.connection();
    Object id = timed(taken, new Command(List.of("CLIENT", "ID"), null));
    Duration patience = waiting.patience();
    String run = patience != null && taken.isOwn() ? Pulse.run(timed(taken, Pulse.WHO)) : "";
    connection.setTimeoutInfinite();
    Place place = new Place(connection, id instanceof Long number ? number : null);
    waiting.left().whenComplete((value, error) -> leave(place, command, there, waiting));
    if (patience != null) {
      Pulse.watch(waiting.reply(), patience, () -> sign(command, place.where(), run, taken.pool(), patience));
    }
    try {
      return Wire.once(taken, command);
    } finally {
      place.end(); // from here on the connection is for others
      if (!connection.isBroken()) {
        connection.rollbackTimeout();
      }
    }
  }

  private CompletionStage<?> sign(Command command, Pulse.@Nullable Place at, String run, @Nullable Pool<Connection> beside, Duration patience) {
    if (at == null) {
      return send(Command.ping(command.key()));
    }
    return beside == null ? Pulse.expect(server(command), at, patience) : Pulse.expect(server(command), at, run, patience, () -> who(beside));
  }

  /** Asks the server that a connection which is opened now leads to which one it is, in a thread of its own. */
  private static CompletionStage<Object> who(Pool<Connection> beside) {
    CompletableFuture<Object> reply = new CompletableFuture<>();
    Thread thread =
        new Thread(
            () -> {
              try (Taken other = Taken.beside(beside)) {
                reply.complete(Wire.once(other, Pulse.WHO));
              } catch (RuntimeException e) {
                reply.completeExceptionally(e);
              }
            },
            "throttle-pulse");
    thread.setDaemon(true);
    thread.start();
    return reply;
  }

  private void leave(Place place, Command command, @Nullable HostAndPort there, Waiting waiting) {
    if (waiting.reply().isDone()) { // by silence
      place.leave(id -> false);
    } else if (!place.isEnded()) {
      Thread thread =
          new Thread(
              () -> {
                try (Taken other = takeBeside(command, there)) {
                  // Another server, to which the address leads by now, would hit somebody else with that number.
                  boolean isThere = Objects.equals(Peer.of(other.connection()), place.where());
                  place.leave(id -> isThere && unblocks(other, id));
                } catch (RuntimeException e) {
                  place.leave(id -> false);
                }
              },
              "throttle-leave");
      thread.setDaemon(true);
      thread.start();
    }
  }

  private static boolean unblocks(Taken taken, long id) {
    try {
      return Wire.once(taken, new Command(List.of("CLIENT", "UNBLOCK", String.valueOf(id)), null)) instanceof Long;
    } catch (RuntimeException e) {
      return false;
    }
  }

  /** Sends calls that were collected: those to one server in one round trip. */
  private void sendTogether(List<Together.Sent> calls) {
    Map<String, List<Together.Sent>> byServer = new LinkedHashMap<>();
    calls.forEach(call -> byServer.computeIfAbsent(nodeOf(call.command().key()), server -> new ArrayList<>()).add(call));
    byServer.values().forEach(some -> execute(some.get(0).command(), some.stream().map(Together.Sent::reply).toList(), () -> pipeline(some)));
  }

  private void pipeline(List<Together.Sent> calls) {
    List<Object> replies;
    try (Taken taken = take(calls.get(0).command(), null)) {
      replies = timed(taken, calls.get(0).command(), () -> Wire.all(taken, calls.stream().map(Together.Sent::command).toList()));
    } catch (RuntimeException e) {
      refreshAfter(e);
      calls.forEach(call -> call.reply().completeExceptionally(translated(call.command(), e)));
      return;
    }
    for (int i = 0; i < calls.size(); i++) {
      Together.Sent call = calls.get(i);
      if (replies.get(i) instanceof JedisRedirectionException) {
        run(call.command(), call.reply(), null);
      } else {
        call.reply().complete(replies.get(i));
      }
    }
  }

  private void refreshAfter(RuntimeException error) {
    if (provider instanceof ClusterConnectionProvider cluster && JedisErrors.isOutage(error)) {
      Cluster.refresh(cluster);
    }
  }

  private ThrottleException translated(Command command, RuntimeException error) {
    return JedisErrors.translated(command.toString(), server(command), error);
  }

  /** Returns what errors call the server that a command goes to; empty if that is not known. */
  private String server(Command command) {
    return provider instanceof ClusterConnectionProvider && command.key() != null ? nodeOf(command.key()) : name;
  }

  /** Opens a connection for a caller that waits, or takes one where it is not known how they are opened. */
  private Taken takeBeside(Command command, @Nullable HostAndPort there) {
    Pool<Connection> beside = poolOf(command, there);
    return beside == null ? take(command, there) : patient(command, there, () -> Taken.beside(beside));
  }

  private Taken take(Command command, @Nullable HostAndPort there) {
    return patient(command, there, () -> takeNow(command, there));
  }

  /** Returns the pool of the server that a command goes to; null where that is not known. */
  private @Nullable Pool<Connection> poolOf(Command command, @Nullable HostAndPort there) {
    if (provider instanceof ClusterConnectionProvider cluster) {
      return there != null ? cluster.getNodes().get(there.toString()) : Cluster.poolWith(cluster, command.key());
    }
    if (pool != null) {
      return pool;
    }
    try (Taken taken = take(command, there)) { // of the master that a Sentinel names now
      return Peer.pool(taken.connection());
    }
  }

  /**
   * Takes a connection, again if it is late while the server is alive: then this process is late. Nothing has been sent
   * yet.
   */
  private Taken patient(Command command, @Nullable HostAndPort there, Supplier<Taken> take) {
    long began = System.nanoTime();
    while (true) {
      try {
        return take.get();
      } catch (JedisException e) {
        if (!JedisErrors.isTimeout(e) || !isAlive(placeOf(command, there))) {
          throw e;
        }
        if (System.nanoTime() - began > MOST_NS) {
          throw new OverloadException(command + ": " + name + ": no connection in time, though the server is alive", e);
        }
      }
    }
  }

  /** Returns where the server is that a command goes to, as far as that is known. */
  private Pulse.@Nullable Place placeOf(Command command, @Nullable HostAndPort there) {
    if (!(provider instanceof ClusterConnectionProvider cluster)) {
      return places.getOrDefault(pool == null ? this : pool, only);
    }
    if (there == null && command.key() == null) {
      return null;
    }
    HostAndPort node = there != null ? there : cluster.getNode(JedisClusterCRC16.getSlot(command.key()));
    ConnectionPool connections = cluster.getNodes().get(String.valueOf(node));
    return connections == null ? Peer.at(node, false) : places.getOrDefault(connections, Peer.at(node, false));
  }

  private Taken takeNow(Command command, @Nullable HostAndPort there) {
    if (provider instanceof ClusterConnectionProvider cluster) {
      return there != null ? new Taken(cluster.getConnection(there), null) : Cluster.take(cluster, command.key(), ROOM);
    }
    return pool != null ? Taken.from(pool, ROOM) : new Taken(Objects.requireNonNull(provider).getConnection(), null);
  }
}
