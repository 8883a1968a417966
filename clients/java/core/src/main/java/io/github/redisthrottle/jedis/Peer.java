package io.github.redisthrottle.jedis;

import io.github.redisthrottle.connection.Pulse;
import java.lang.reflect.Field;
import java.net.InetSocketAddress;
import java.net.Socket;
import javax.net.ssl.SSLSocket;
import org.jspecify.annotations.Nullable;
import redis.clients.jedis.Connection;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.util.Pool;

/** Where a connection of Jedis leads, and whose it is, which it does not tell. */
final class Peer {
  private static final @Nullable Field SOCKET = field("socket");
  private static final @Nullable Field POOL = field("memberOf");

  private Peer() {}

  /** Returns a field, which a native image has by reflect-config.json. */
  private static @Nullable Field field(String name) {
    try {
      Field field = Connection.class.getDeclaredField(name);
      field.setAccessible(true);
      return field;
    } catch (ReflectiveOperationException | RuntimeException e) {
      return null;
    }
  }

  /** Returns where a server is; null if it is not told by its address. */
  static Pulse.@Nullable Place at(@Nullable Object server, boolean tls) {
    return server instanceof HostAndPort to ? new Pulse.Place(InetSocketAddress.createUnresolved(to.getHost(), to.getPort()), tls) : null;
  }

  /** Returns where a connection leads; null if it was never open, or if that is not known. */
  static Pulse.@Nullable Place of(Connection connection) {
    try {
      Socket socket = SOCKET == null ? null : (Socket) SOCKET.get(connection);
      return socket != null && socket.getRemoteSocketAddress() instanceof InetSocketAddress address
          ? new Pulse.Place(address, socket instanceof SSLSocket)
          : null;
    } catch (IllegalAccessException e) {
      return null;
    }
  }

  /** Returns the pool that a connection was taken of; null if it is of none, or if that is not known. */
  @SuppressWarnings("unchecked")
  static @Nullable Pool<Connection> pool(Connection connection) {
    try {
      return POOL == null ? null : (Pool<Connection>) POOL.get(connection);
    } catch (IllegalAccessException e) {
      return null;
    }
  }
}
