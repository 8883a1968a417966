package io.github.redisthrottle.testing;

import java.time.Duration;
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
                + " 1\nsentinel down-after-milliseconds mymaster 2000\nsentinel failover-timeout mymaster 5000");
    try (Jedis replicated = replica.client();
        Jedis watching = sentinel.client()) {
      Server.await("the replica has the data", () -> replicated.info("replication").contains("master_link_status:up"));
      Server.await("the Sentinel knows the replica", () -> watching.info("sentinel").contains("slaves=1"));
    }
  }

  /** Waits until the Sentinel has promoted the replica. On a busy machine it may give up at first, and tries again. */
  public void awaitFailover() {
    try (Jedis watching = sentinel.client()) {
      String port = String.valueOf(replica.port);
      Server.await("a failover", Duration.ofMinutes(2), () -> port.equals(watching.sentinelGetMasterAddrByName("mymaster").get(1)));
    }
  }

  @Override
  public void close() {
    sentinel.close();
    replica.close();
    master.close();
  }
}
