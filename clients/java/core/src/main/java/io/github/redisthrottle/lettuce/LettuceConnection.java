package io.github.redisthrottle.lettuce;

import io.github.redisthrottle.connection.Command;
import io.github.redisthrottle.connection.Connection;
import io.github.redisthrottle.connection.ErrorReply;
import io.github.redisthrottle.connection.Handover;
import io.lettuce.core.ClientOptions;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.TimeoutOptions;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.resource.ClientResources;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BiFunction;
import org.jspecify.annotations.Nullable;

/**
 * Calls over Lettuce 6 or 7. It shares the threads ({@link ClientResources}) of the client that you give it, and has
 * connections of its own: those of the client repeat commands when they are connected again, which would charge twice.
 *
 * <pre>{@code
 * Limiter limiter = Limiter.over(LettuceConnection.of("redis://127.0.0.1:6379"));
 * }</pre>
 */
public final class LettuceConnection implements Connection {
  private static final Duration TIMEOUT = Duration.ofMillis(200);
  private static final int REDIRECTS = 5;
  private static final long CONNECT_MS = 5000;
  private static final Command ASKING = new Command(List.of("ASKING"), null);

  private final RedisClient client;
  private final RedisURI uri; // of a cluster: of one of its servers
  private final @Nullable Topology cluster; // null with one server
  private final Runnable close;
  private final long timeoutMs;
  private final Addresses addresses = new Addresses();
  private final @Nullable Node single;
  private final Map<String, Node> nodes = new ConcurrentHashMap<>();

  private LettuceConnection(RedisClient client, RedisURI uri, @Nullable RedisClusterClient cluster, Duration timeout, Runnable close) {
    this.client = client;
    this.uri = uri;
    this.close = close;
    this.timeoutMs = timeout.toMillis();
    client.addListener(addresses);
    this.cluster = cluster == null ? null : new Topology(cluster, uri, timeoutMs, found -> node(found.getHost(), found.getPort()));
    this.single = cluster != null ? null : new Node(client, addresses, uri, timeoutMs);
    if (single != null) {
      single.warmUp();
    }
    if (this.cluster != null) {
      this.cluster.warmUp(Node.WARM_UP_MS);
    }
  }

  /** Connects to a server, or to the master that a Sentinel names: redis://, rediss://, redis-sentinel:// and so on. */
  public static LettuceConnection of(String uri) {
    RedisURI parsed;
    try {
      parsed = RedisURI.create(uri);
    } catch (IllegalArgumentException e) { // without its text, which may have the password
      throw new IllegalArgumentException(
          "uri is none of Redis, such as redis://127.0.0.1:6379 or rediss://user:password@host:6379; in a user or password, / is %2F, ? is %3F, # is %23");
    }
    return of(parsed, TIMEOUT);
  }

  /**
   * Connects to a server, or to the master that a Sentinel names.
   *
   * @param timeout how long a call waits for the server; a call that waits for its turn does not end by it
   */
  public static LettuceConnection of(RedisURI uri, Duration timeout) {
    ClientResources resources = ClientResources.create();
    RedisClient client = client(resources, ClientOptions.create(), timeout);
    return new LettuceConnection(
        client,
        uri,
        null,
        timeout,
        () -> client.shutdownAsync().whenComplete((done, error) -> resources.shutdown()));
  }

  /** As {@link #of(RedisURI, Duration)}, with the threads and options of a client of yours, and a timeout of 200 ms. */
  public static LettuceConnection over(RedisClient yours, RedisURI uri) {
    return over(yours, uri, TIMEOUT);
  }

  /** As {@link #over(RedisClient, RedisURI)}, with another timeout. */
  public static LettuceConnection over(RedisClient yours, RedisURI uri, Duration timeout) {
    RedisClient client = client(yours.getResources(), yours.getOptions(), timeout);
    return new LettuceConnection(client, uri, null, timeout, client::shutdownAsync);
  }

  /**
   * Connects to the servers of a cluster, as your client knows them, with its threads and options and a timeout of 200
   * ms.
   *
   * @param uri one that your client was made with, which does not tell it: user, password and TLS are those of every
   *     server
   */
  public static LettuceConnection over(RedisClusterClient yours, RedisURI uri) {
    return over(yours, uri, TIMEOUT);
  }

  /** As {@link #over(RedisClusterClient, RedisURI)}, with another timeout. */
  public static LettuceConnection over(RedisClusterClient yours, RedisURI uri, Duration timeout) {
    RedisClient client = client(yours.getResources(), yours.getOptions(), timeout);
    return new LettuceConnection(client, uri, yours, timeout, client::shutdownAsync);
  }

  private static RedisClient client(ClientResources resources, ClientOptions options, Duration timeout) {
    if (timeout.toMillis() <= 0) {
      throw new IllegalArgumentException("timeout: " + timeout + " is shorter than a millisecond");
    }
    RedisClient client = RedisClient.create(resources);
    // Calls know how long they wait, and Lettuce would end also those that wait for their turn. A connection that is
    // late because this process is serves the next ones.
    Duration connect = Duration.ofMillis(Math.max(timeout.toMillis(), CONNECT_MS));
    client.setOptions(
        options
            .mutate()
            .autoReconnect(false)
            .timeoutOptions(TimeoutOptions.create())
            .socketOptions(options.getSocketOptions().mutate().connectTimeout(connect).build())
            .build());
    return client;
  }

  @Override
  public CompletionStage<Object> send(Command command) {
    return follow(command, Node::send);
  }

  @Override
  public CompletionStage<Object> sendWaiting(Command command, CompletionStage<Void> left) {
    return follow(command, (node, commands) -> node.sendAlone(left, commands));
  }

  @Override
  public CompletionStage<Object> sendWaiting(Command command, CompletionStage<Void> left, Duration patience) {
    return follow(command, (node, commands) -> node.sendWatched(left, patience, commands));
  }

  @Override
  public CompletionStage<Object> sendAtomically(List<Command> commands) {
    return follow(commands.get(0), (node, first) -> node.sendAtomically(commands));
  }

  @Override
  public String nodeOf(String key) {
    Node node = cluster == null ? null : cluster.owner(key);
    return node == null ? "" : node.toString();
  }

  @Override
  public void close() {
    close.run(); // which closes the connections of its client
  }

  private CompletableFuture<Object> follow(Command command, BiFunction<Node, Command[], CompletableFuture<Object>> how) {
    CompletableFuture<Object> result = new CompletableFuture<>();
    if (cluster == null) {
      attempt(command, how, REDIRECTS, Objects.requireNonNull(single), result, command);
    } else {
      cluster
          .nodeWith(command.key())
          .whenComplete(
              (node, error) -> {
                if (error != null) {
                  result.completeExceptionally(LettuceErrors.translated(command.toString(), LettuceErrors.name(uri), error));
                } else {
                  attempt(command, how, REDIRECTS, node, result, command);
                }
              });
    }
    return Handover.of(result);
  }

  private void attempt(
      Command command,
      BiFunction<Node, Command[], CompletableFuture<Object>> how,
      int left,
      Node node,
      CompletableFuture<Object> result,
      Command... commands) {
    CompletableFuture<Object> sent = how.apply(node, commands);
    result.whenComplete((value, error) -> sent.cancel(false)); // changes nothing unless somebody else has completed it
    sent.whenComplete(
        (value, error) -> {
          ErrorReply reply = error != null ? LettuceErrors.reply(error) : value instanceof ErrorReply told ? told : null;
          if (error == null && reply == null) {
            result.complete(value);
          } else if (reply == null) {
            if (cluster != null) {
              cluster.refresh();
            }
            result.completeExceptionally(LettuceErrors.translated(command.toString(), node.name(), error));
          } else if (cluster != null && left > 0 && (reply.text().startsWith("MOVED ") || reply.text().startsWith("ASK "))) {
            redirected(command, how, left - 1, node, reply.text(), result);
          } else {
            if (reply.isNoMaster()) {
              node.drop(); // the next connection may lead to another server
              if (cluster != null) {
                cluster.refresh();
              }
            }
            result.complete(reply);
          }
        });
  }

  private void redirected(
      Command command,
      BiFunction<Node, Command[], CompletableFuture<Object>> how,
      int left,
      Node by,
      String text,
      CompletableFuture<Object> result) {
    String address = text.substring(text.lastIndexOf(' ') + 1);
    int colon = address.lastIndexOf(':');
    boolean isMoved = text.startsWith("MOVED ");
    if (address.startsWith("?:")) { // names are preferred, and the server has not heard of that one's
      Objects.requireNonNull(cluster)
          .place(Objects.requireNonNull(command.key()), by, isMoved)
          .whenComplete(
              (node, error) -> {
                if (error != null) {
                  result.completeExceptionally(LettuceErrors.translated(command.toString(), by.name(), error));
                } else {
                  redirected(command, how, left, node, isMoved, result);
                }
              });
      return;
    }
    String host = colon > 0 ? address.substring(0, colon) : by.uri().getHost();
    redirected(command, how, left, node(host, Integer.parseInt(address.substring(colon + 1))), isMoved, result);
  }

  private void redirected(
      Command command,
      BiFunction<Node, Command[], CompletableFuture<Object>> how,
      int left,
      Node node,
      boolean isMoved,
      CompletableFuture<Object> result) {
    if (isMoved) {
      Objects.requireNonNull(cluster).moved(Objects.requireNonNull(command.key()), node);
      attempt(command, how, left, node, result, command);
    } else {
      attempt(command, how, left, node, result, ASKING, command);
    }
  }

  private Node node(String host, int port) {
    return nodes.computeIfAbsent(host + ":" + port, name -> new Node(client, addresses, uriOf(host, port), timeoutMs));
  }

  /** One that hangs must not keep its handshake open for the minute that Lettuce waits by default. */
  private RedisURI uriOf(String host, int port) {
    Duration handshake = Duration.ofMillis(Math.max(timeoutMs, CONNECT_MS));
    return RedisURI.builder(uri).withHost(host).withPort(port).withTimeout(handshake).build();
  }
}
