package io.github.redisthrottle.lettuce;

import io.github.redisthrottle.MistakeException;
import io.github.redisthrottle.OutageException;
import io.github.redisthrottle.connection.Command;
import io.github.redisthrottle.connection.ErrorReply;
import io.lettuce.core.RedisURI;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.SlotHash;
import io.lettuce.core.cluster.models.partitions.ClusterPartitionParser;
import io.lettuce.core.cluster.models.partitions.Partitions;
import io.lettuce.core.cluster.models.partitions.RedisClusterNode;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Function;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * Which server of a cluster has which slot. Several servers are asked at the same time, each with the timeout of a
 * call: Lettuce's own client waits a minute for one that hangs.
 */
final class Topology {
  private static final Command NODES = new Command(List.of("CLUSTER", "NODES"), null);
  private static final long PAUSE_NS = TimeUnit.MILLISECONDS.toNanos(200);
  private static final int ASKED = 5; // servers at the same time

  /** The server that says it has a slot, and how new that is. */
  private record Claim(Node node, long epoch) {}

  private final RedisClusterClient yours;
  private final RedisURI seed;
  private final long timeoutMs;
  private final Function<RedisURI, Node> nodes;
  private final ReentrantLock lock = new ReentrantLock();
  private final AtomicReference<CompletableFuture<Void>> asking = new AtomicReference<>();
  private final AtomicReference<CompletableFuture<Void>> askingYours = new AtomicReference<>();
  private volatile List<Node> known = List.of();
  private volatile Claim @Nullable [] slots; // null while nothing is known
  private volatile long asked;

  Topology(RedisClusterClient yours, RedisURI seed, long timeoutMs, Function<RedisURI, Node> nodes) {
    this.yours = yours;
    this.seed = seed;
    this.timeoutMs = timeoutMs;
    this.nodes = nodes;
  }

  /** Returns the server that has a key, or any without one. It waits as long as a call does, while nothing is known. */
  CompletableFuture<Node> nodeWith(@Nullable String key) {
    CompletableFuture<Void> isKnown = slots != null ? CompletableFuture.completedFuture(null) : refresh();
    return isKnown.thenApply(done -> found(key));
  }

  /** Asks before the first call needs to know, and waits for so long at most. */
  void warmUp(long ms) {
    refresh().copy().completeOnTimeout(null, ms, TimeUnit.MILLISECONDS).exceptionally(error -> null).join();
  }

  private Node found(@Nullable String key) {
    Node node = key == null ? any() : owner(key);
    if (node == null) {
      refresh();
      throw new OutageException("the cluster has no server for the slot of the key", null, false);
    }
    return node;
  }

  /**
   * Returns the server that has a key; null while it is not known. Where that one is out of reach, another may have it
   * soon.
   */
  @Nullable Node owner(String key) {
    Claim[] now = slots;
    Claim claim = now == null ? null : now[SlotHash.getSlot(key)];
    if (claim != null && claim.node().isSilent()) {
      refresh();
    }
    return claim == null ? null : claim.node();
  }

  private Node any() {
    return known.stream().filter(node -> !node.isSilent()).findAny().orElse(nodes.apply(seed));
  }

  /** Notes what a server says that had a slot before. */
  void moved(String key, Node to) {
    Claim[] next = Objects.requireNonNull(slots).clone();
    int slot = SlotHash.getSlot(key);
    next[slot] = new Claim(to, next[slot] == null ? 0 : next[slot].epoch());
    slots = next;
    refresh();
  }

  /**
   * Asks a server for the address of the one that has the slot of a key, or gets it: servers without a name are
   * {@code ?} in a redirection.
   */
  CompletableFuture<Node> place(String key, Node by, boolean isMoved) {
    int slot = SlotHash.getSlot(key);
    return by.send(NODES)
        .thenApply(
            reply -> {
              Partitions said = parsed(reply);
              Matcher migrates = Pattern.compile("\\[" + slot + "->-(\\w+)]").matcher((String) reply);
              String to = migrates.find() ? migrates.group(1) : "";
              return said.stream()
                  .filter(each -> isMoved ? each.hasSlot(slot) : each.getNodeId().equals(to))
                  .filter(each -> each.getUri() != null && !each.is(RedisClusterNode.NodeFlag.NOADDR))
                  .findFirst()
                  .map(each -> nodes.apply(each.getUri()))
                  .orElseThrow(() -> new OutageException("a server of the cluster does not say where the slot of the key is", null, false));
            });
  }

  /** Asks who has which slots now: once at a time, and not too often. The stage is completed with the first answer. */
  CompletableFuture<Void> refresh() {
    CompletableFuture<Void> mine = new CompletableFuture<>();
    CompletableFuture<Void> before = asking.get();
    boolean isSoon = before != null && (!before.isDone() || (slots != null && System.nanoTime() - asked < PAUSE_NS));
    if (isSoon || !asking.compareAndSet(before, mine)) {
      return asking.get();
    }
    asked = System.nanoTime();
    List<Node> list = targets();
    Claim[] round = new Claim[SlotHash.SLOT_COUNT];
    AtomicInteger left = new AtomicInteger(list.size());
    for (Node node : list) {
      node.send(NODES)
          .thenAccept(reply -> take(round, parsed(reply), node))
          .whenComplete(
              (done, error) -> {
                if (error == null) {
                  mine.complete(null);
                }
                if (left.decrementAndGet() == 0 && !mine.isDone()) {
                  askYours(mine, error);
                }
              });
    }
    return mine;
  }

  /** Returns whom to ask: some of the servers that have not just failed, and the one that the application has named. */
  private List<Node> targets() {
    List<Node> list = new ArrayList<>(known);
    list.removeIf(Node::isSilent);
    Collections.shuffle(list);
    list = new ArrayList<>(list.subList(0, Math.min(list.size(), ASKED)));
    Node named = nodes.apply(seed);
    if (list.isEmpty() || (list.size() < ASKED && !list.contains(named) && !named.isSilent())) {
      list.add(named);
    }
    return list;
  }

  private static Partitions parsed(Object reply) {
    if (reply instanceof ErrorReply error) {
      throw new MistakeException("CLUSTER NODES: " + error.text(), null);
    }
    return ClusterPartitionParser.parse((String) reply);
  }

  /** Takes what a server says. Of two that claim a slot, the one that got it later has it. */
  private void take(Claim[] round, Partitions said, Node by) {
    List<Node> there = new ArrayList<>();
    lock.lock();
    try {
      for (RedisClusterNode each : said) {
        RedisURI uri = each.getUri();
        boolean isNameless = uri == null || uri.getHost() == null || uri.getHost().isEmpty(); // as long as it does not know its own address
        if (isNameless && !each.is(RedisClusterNode.NodeFlag.MYSELF)) {
          continue;
        }
        Node node = isNameless ? by : nodes.apply(uri);
        if (!each.is(RedisClusterNode.NodeFlag.FAIL) && !each.is(RedisClusterNode.NodeFlag.NOADDR)) {
          there.add(node);
        }
        for (int slot : each.getSlots()) {
          if (round[slot] == null || round[slot].epoch() < each.getConfigEpoch()) {
            round[slot] = new Claim(node, each.getConfigEpoch());
          }
        }
      }
      known = List.copyOf(there);
      slots = round.clone();
    } finally {
      lock.unlock();
    }
  }

  /** Asks the client of the application, which may know other servers. In a thread, since it may take long. */
  private void askYours(CompletableFuture<Void> mine, Throwable error) {
    CompletableFuture<Void> before = askingYours.get();
    if (before == null || before.isDone()) {
      CompletableFuture<Void> next = new CompletableFuture<>();
      if (askingYours.compareAndSet(before, next)) {
        Thread thread = new Thread(() -> next.complete(takeYours()), "throttle-topology");
        thread.setDaemon(true);
        thread.start();
      }
    }
    askingYours
        .get()
        .copy()
        .orTimeout(timeoutMs, TimeUnit.MILLISECONDS)
        .whenComplete(
            (done, late) -> {
              if (slots == null) {
                mine.completeExceptionally(error);
              } else {
                mine.complete(null);
              }
            });
  }

  private Void takeYours() {
    try {
      if (slots != null) {
        yours.refreshPartitions();
      }
      take(new Claim[SlotHash.SLOT_COUNT], yours.getPartitions(), nodes.apply(seed));
    } catch (RuntimeException e) {
      // It reaches none either: calls end with the error of the servers that were asked.
    }
    return null;
  }
}
