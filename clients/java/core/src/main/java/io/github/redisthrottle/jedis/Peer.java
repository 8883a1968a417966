package io.github.redisthrottle.jedis;

import io.github.redisthrottle.connection.Pulse;
import java.lang.reflect.Field;
import java.net.InetSocketAddress;
import java.net.Socket;
import javax.net.ssl.SSLSocket;
import redis.clients.jedis.Connection;
import redis.clients.jedis.HostAndPort;

/** Where a connection of Jedis leads, which it does not tell. */
final class Peer {
  private static final Field SOCKET = socket();

  private Peer() {}

  private static Field socket() {
    try {
      Field field = Connection.class.getDeclaredField("socket");
      field.setAccessible(true);
      return field;
    } catch (ReflectiveOperationException | RuntimeException e) {
      return null;
    }
  }

  /** Returns where a server is; null if it is not told by its address. */
  static Pulse.Place at(Object server, boolean tls) {
    return server instanceof HostAndPort to ? new Pulse.Place(InetSocketAddress.createUnresolved(to.getHost(), to.getPort()), tls) : null;
  }

  /** Returns where a connection leads; null if it was never open, or if that is not known. */
  static Pulse.Place of(Connection connection) {
    try {
      Socket socket = SOCKET == null ? null : (Socket) SOCKET.get(connection);
      boolean isKnown = socket != null && socket.getRemoteSocketAddress() instanceof InetSocketAddress;
      return isKnown ? new Pulse.Place((InetSocketAddress) socket.getRemoteSocketAddress(), socket instanceof SSLSocket) : null;
    } catch (IllegalAccessException e) {
      return null;
    }
  }
}
