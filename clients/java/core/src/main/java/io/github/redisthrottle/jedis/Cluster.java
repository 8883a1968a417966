package io.github.redisthrottle.jedis;

import io.github.redisthrottle.OutageException;
import java.time.Duration;
import org.jspecify.annotations.Nullable;
import redis.clients.jedis.ConnectionPool;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.exceptions.JedisException;
import redis.clients.jedis.providers.ClusterConnectionProvider;
import redis.clients.jedis.util.JedisClusterCRC16;

/** The servers of a cluster, as its provider knows them. */
final class Cluster {
  private Cluster() {}

  static String nodeOf(ClusterConnectionProvider cluster, @Nullable String key) {
    HostAndPort node = cluster.getNode(JedisClusterCRC16.getSlot(key));
    return node == null ? "" : node.toString();
  }

  /** Takes a connection to the server that has a key; to any server without one. */
  static Taken take(ClusterConnectionProvider cluster, @Nullable String key, Duration room) {
    return key == null ? new Taken(cluster.getConnection(), null) : Taken.from(poolWith(cluster, key), room);
  }

  /** Returns the connections to the server that has a key. */
  static ConnectionPool poolWith(ClusterConnectionProvider cluster, @Nullable String key) {
    HostAndPort node = cluster.getNode(JedisClusterCRC16.getSlot(key));
    ConnectionPool pool = node == null ? null : cluster.getNodes().get(node.toString());
    if (pool == null) {
      refresh(cluster);
      throw new OutageException("the cluster has no server for the slot of the key", null, false);
    }
    return pool;
  }

  /** Asks the cluster who has which slots now. */
  static void refresh(ClusterConnectionProvider cluster) {
    try {
      cluster.renewSlotCache();
    } catch (JedisException e) {
      // None of the servers that it knows answers: the call ends with its own error.
    }
  }
}
