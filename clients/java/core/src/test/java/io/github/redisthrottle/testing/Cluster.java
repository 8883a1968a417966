package io.github.redisthrottle.testing;

import java.util.ArrayList;
import java.util.List;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.args.ClientType;
import redis.clients.jedis.exceptions.JedisException;
import redis.clients.jedis.params.ClientKillParams;
import redis.clients.jedis.util.JedisClusterCRC16;

/** Three masters that share the slots. */
public final class Cluster implements AutoCloseable {
  private static final int SLOTS = 16_384;
  private static final int MASTERS = 3;
  private static final int SHARE = SLOTS / MASTERS + 1;
  private static final String[] OPTIONS = {
    "--cluster-enabled", "yes", "--repl-diskless-sync-delay", "0", "--cluster-node-timeout", "2000", "--cluster-replica-validity-factor", "0"
  };

  public final List<Server> nodes = new ArrayList<>();
  public final List<Integer> tlsPorts = new ArrayList<>();
  private String asked; // the password of its servers

  public Cluster() {
    this(null);
  }

  /** Starts one whose servers speak with each other by TLS, and with clients at ports of their own. */
  public Cluster(Tls tls) {
    this(tls, true);
  }

  private Cluster(Tls tls, boolean module) {
    for (int i = 0; i < MASTERS; i++) {
      Server node = module ? start(tls) : Server.plain(OPTIONS);
      nodes.add(node);
      try (Jedis jedis = node.client()) {
        jedis.clusterAddSlotsRange(i * SHARE, Math.min((i + 1) * SHARE, SLOTS) - 1);
        node.run("CLUSTER", "SET-CONFIG-EPOCH", String.valueOf(i + 1));
        jedis.clusterMeet("127.0.0.1", tls == null ? nodes.get(0).port : tlsPorts.get(0));
      }
    }
    nodes.forEach(node -> Server.await("the cluster agrees", () -> agrees(node)));
  }

  /** Starts one without the module. */
  public static Cluster plain() {
    return new Cluster(null, false);
  }

  private Server start(Tls tls) {
    List<String> options = new ArrayList<>(List.of(OPTIONS));
    if (tls != null) {
      tlsPorts.add(Server.freePort());
      options.addAll(tls.options(tlsPorts.get(tlsPorts.size() - 1)));
    }
    return Server.start(options.toArray(String[]::new));
  }

  private boolean agrees(Server node) {
    try (Jedis jedis = node.client()) {
      String info = jedis.clusterInfo();
      return info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:" + nodes.size());
    }
  }

  /** Returns the addresses of its servers. */
  public List<HostAndPort> addresses() {
    return nodes.stream().map(node -> new HostAndPort("127.0.0.1", node.port)).toList();
  }

  /** Returns the master that has a key. */
  public Server owner(String key) {
    return nodes.get(JedisClusterCRC16.getSlot(key) / SHARE);
  }

  /** Adds a replica of a master, which is promoted when the master dies. */
  public Server addReplica(Server master) {
    Server replica = Server.start(OPTIONS);
    nodes.add(replica);
    try (Jedis jedis = replica.client();
        Jedis of = master.client()) {
      jedis.clusterMeet("127.0.0.1", master.port);
      String id = of.clusterMyId();
      Server.await("the replica follows", () -> follows(jedis, id));
      Server.await("the replica has the data", () -> jedis.info("replication").contains("master_link_status:up"));
    }
    nodes.forEach(node -> Server.await("every server knows the replica", () -> agrees(node) && knowsReplica(node)));
    return replica;
  }

  /** Has every server ask for a password from now on, and closes the connections of clients. */
  public void password(String password) {
    for (Server node : nodes) {
      try (Jedis jedis = node.client()) {
        if (asked != null) {
          jedis.auth(asked);
        }
        jedis.aclSetUser("default", "resetpass", ">" + password);
        jedis.clientKill(ClientKillParams.clientKillParams().type(ClientType.NORMAL).skipMe(ClientKillParams.SkipMe.YES));
      }
    }
    asked = password;
  }

  /** Gives the slot of a key, which holds none, to another master, of which clients have not heard. */
  public void moveSlot(String key, Server to) {
    int slot = JedisClusterCRC16.getSlot(key);
    to.run("CLUSTER", "BUMPEPOCH");
    try (Jedis jedis = to.client();
        Jedis from = owner(key).client()) {
      String id = jedis.clusterMyId();
      jedis.clusterSetSlotNode(slot, id);
      from.clusterSetSlotNode(slot, id);
    }
  }

  /** Begins to move the slot of a key to another master, or has it arrive there. */
  public void moving(String key, Server to, boolean arrives) {
    String slot = String.valueOf(JedisClusterCRC16.getSlot(key));
    Server from = owner(key);
    try (Jedis target = to.client();
        Jedis source = from.client()) {
      String there = target.clusterMyId();
      to.run("CLUSTER", "SETSLOT", slot, arrives ? "NODE" : "IMPORTING", arrives ? there : source.clusterMyId());
      from.run("CLUSTER", "SETSLOT", slot, arrives ? "NODE" : "MIGRATING", there);
    }
  }

  private static boolean follows(Jedis jedis, String id) {
    try {
      jedis.clusterReplicate(id);
      return true;
    } catch (JedisException e) { // it does not know the master yet
      return false;
    }
  }

  private static boolean knowsReplica(Server node) {
    try (Jedis jedis = node.client()) {
      return jedis.clusterNodes().contains("slave");
    }
  }

  @Override
  public void close() {
    nodes.forEach(Server::close);
  }
}
