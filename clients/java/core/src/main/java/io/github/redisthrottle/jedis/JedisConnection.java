package io.github.redisthrottle.jedis;

import io.github.redisthrottle.connection.Command;
import io.github.redisthrottle.connection.ErrorReply;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Executor;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.Connection;
import redis.clients.jedis.ConnectionPoolConfig;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisClientConfig;
import redis.clients.jedis.exceptions.JedisAskDataException;
import redis.clients.jedis.exceptions.JedisConnectionException;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.exceptions.JedisMovedDataException;
import redis.clients.jedis.exceptions.JedisRedirectionException;
import redis.clients.jedis.providers.ClusterConnectionProvider;
import redis.clients.jedis.providers.ConnectionProvider;
import redis.clients.jedis.providers.PooledConnectionProvider;
import redis.clients.jedis.util.JedisURIHelper;
import redis.clients.jedis.util.Pool;
import redis.clients.jedis.util.SafeEncoder;

/**
 * Calls over Jedis 5 and later. It takes a connection of a {@link ConnectionProvider} for each call, and sends a call once: the
 * executors of a cluster's client repeat what fails.
 *
 * <pre>{@code
 * Limiter limiter = Limiter.over(JedisConnection.of(URI.create("redis://127.0.0.1:6379")));
 * }</pre>
 *
 * <p>Jedis blocks, so a call runs in the thread of its caller, also one that is asynchronous, unless you give an executor. A call that
 * waits for its turn holds a connection of the provider meanwhile, in a thread of its own.
 */
public final class JedisConnection implements io.github.redisthrottle.connection.Connection {
  private static final Duration TIMEOUT = Duration.ofMillis(200);
  private static final Duration ROOM = Duration.ofSeconds(1);
  private static final int REDIRECTS = 5;

  private final ConnectionProvider provider;
  private final Pool<Connection> pool;
  private final Executor executor;
  private final Runnable close;

  private JedisConnection(ConnectionProvider provider, Pool<Connection> pool, Executor executor, Runnable close) {
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
            .build();
    ConnectionPoolConfig pool = new ConnectionPoolConfig();
    pool.setMaxTotal(16);
    pool.setMaxIdle(16);
    PooledConnectionProvider provider = new PooledConnectionProvider(new HostAndPort(uri.getHost(), uri.getPort()), config, pool);
    return new JedisConnection(provider, provider.getPool(), Runnable::run, provider::close);
  }

  /**
   * Calls over the pool of a client of yours, with its timeouts: {@code over(client.getPool())} of a JedisPooled, or of a RedisClient since
   * Jedis 7. It stays yours to close.
   */
  public static JedisConnection over(Pool<Connection> yours) {
    return new JedisConnection(null, yours, Runnable::run, () -> {});
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
    return new JedisConnection(yours, pool, executor, () -> {});
  }

  @Override
  public CompletionStage<Object> send(Command command) {
    CompletableFuture<Object> reply = new CompletableFuture<>();
    executor.execute(() -> run(command, reply, null));
    return reply;
  }

  @Override
  public CompletionStage<Object> sendWaiting(Command command, CompletionStage<Void> left) {
    CompletableFuture<Object> reply = new CompletableFuture<>();
    Thread thread = new Thread(() -> run(command, reply, left), "throttle-wait");
    thread.setDaemon(true);
    thread.start();
    return reply;
  }

  @Override
  public CompletionStage<Object> sendAtomically(List<Command> commands) {
    CompletableFuture<Object> reply = new CompletableFuture<>();
    executor.execute(
        () -> {
          try (Taken taken = take(commands.get(0), null)) {
            reply.complete(transaction(taken, commands));
          } catch (RuntimeException e) {
            reply.completeExceptionally(JedisErrors.translated(commands.get(0).toString(), e));
          }
        });
    return reply;
  }

  private static Object transaction(Taken taken, List<Command> commands) {
    Object refused = once(taken, new Command(List.of("MULTI"), null));
    if (refused instanceof ErrorReply) {
      return refused;
    }
    refused = null;
    for (Command command : commands) {
      Object queued = once(taken, command);
      refused = refused == null && queued instanceof ErrorReply ? queued : refused;
    }
    Object replies = once(taken, new Command(List.of("EXEC"), null));
    return refused == null ? replies : refused;
  }

  @Override
  public String nodeOf(String key) {
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

  private void run(Command command, CompletableFuture<Object> reply, CompletionStage<Void> left) {
    try {
      reply.complete(exchange(command, left));
    } catch (RuntimeException e) {
      if (provider instanceof ClusterConnectionProvider cluster && JedisErrors.isOutage(e)) {
        Cluster.refresh(cluster);
      }
      reply.completeExceptionally(JedisErrors.translated(command.toString(), e));
    }
  }

  private Object exchange(Command command, CompletionStage<Void> left) {
    HostAndPort there = null;
    boolean asking = false;
    for (int redirects = REDIRECTS; ; redirects--) {
      try (Taken taken = take(command, there)) {
        if (asking) {
          taken.connection().executeCommand(arguments(new Command(List.of("ASKING"), null)));
        }
        return left == null ? once(taken, command) : turn(taken, command, there, left);
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

  private static Object once(Taken taken, Command command) {
    try {
      return plain(taken.connection().executeCommand(arguments(command)));
    } catch (JedisRedirectionException e) {
      throw e;
    } catch (JedisDataException e) {
      return new ErrorReply(String.valueOf(e.getMessage()));
    } catch (JedisConnectionException e) {
      taken.failed();
      throw e;
    }
  }

  /**
   * Waits for a turn. A caller that has left has the server answer now; where it does not, the connection is closed, which ends the read and
   * loses what is on its way.
   */
  private Object turn(Taken taken, Command command, HostAndPort there, CompletionStage<Void> left) {
    Connection connection = taken.connection();
    Object id = once(taken, new Command(List.of("CLIENT", "ID"), null));
    connection.setTimeoutInfinite();
    Place place = new Place(connection, id instanceof Long number ? number : null);
    left.whenComplete((value, error) -> leave(place, command, there));
    try {
      return once(taken, command);
    } finally {
      place.end(); // from here on the connection is for others
      if (!connection.isBroken()) {
        connection.rollbackTimeout();
      }
    }
  }

  private void leave(Place place, Command command, HostAndPort there) {
    if (!place.isEnded()) {
      Thread thread =
          new Thread(
              () ->
                  place.leave(
                      id -> {
                        try (Taken other = take(command, there)) {
                          return once(other, new Command(List.of("CLIENT", "UNBLOCK", String.valueOf(id)), null)) instanceof Long;
                        } catch (RuntimeException e) {
                          return false;
                        }
                      }),
              "throttle-leave");
      thread.setDaemon(true);
      thread.start();
    }
  }

  private Taken take(Command command, HostAndPort there) {
    if (provider instanceof ClusterConnectionProvider cluster) {
      return there != null ? new Taken(cluster.getConnection(there), null) : Cluster.take(cluster, command.key(), ROOM);
    }
    return pool != null ? Taken.from(pool, ROOM) : new Taken(provider.getConnection(), null);
  }

  private static CommandArguments arguments(Command command) {
    byte[] name = SafeEncoder.encode(command.words().get(0));
    CommandArguments arguments = new CommandArguments(() -> name);
    command.words().stream().skip(1).forEach(arguments::add);
    return arguments;
  }

  private static Object plain(Object reply) {
    if (reply instanceof byte[] bytes) {
      return new String(bytes, StandardCharsets.UTF_8);
    }
    if (reply instanceof Map.Entry<?, ?> pair) { // of a map, in RESP3
      return Arrays.asList(plain(pair.getKey()), plain(pair.getValue()));
    }
    if (reply instanceof List<?> list) {
      List<Object> plain = new ArrayList<>(list.size());
      list.forEach(each -> plain.add(plain(each)));
      return plain;
    }
    if (reply instanceof JedisDataException error) {
      return new ErrorReply(String.valueOf(error.getMessage()));
    }
    return reply;
  }
}
