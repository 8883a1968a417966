package io.github.redisthrottle.testing;

import redis.clients.jedis.Jedis;

/** A master, its replica, and a Sentinel that promotes the replica. */
public final class Watched implements AutoCloseable {
  public final Server master = Server.start("--repl-diskless-sync-delay", "0");
  public final Server replica = Server.start("--replicaof", "127.0.0.1", String.valueOf(master.port));
  public final Server sentinel;

  public Watched() {
    sentinel =
        Server.sentinel(
            "sentinel monitor mymaster 127.0.0.1 "
                + master.port
                + " 1\nsentinel down-after-milliseconds mymaster 2000\nsentinel failover-timeout mymaster 10000");
    try (Jedis replicated = replica.client();
        Jedis watching = sentinel.client()) {
      Server.await("the replica has the data", () -> replicated.info("replication").contains("master_link_status:up"));
      Server.await("the Sentinel knows the replica", () -> watching.info("sentinel").contains("slaves=1"));
    }
  }

  @Override
  public void close() {
    sentinel.close();
    replica.close();
    master.close();
  }
}
