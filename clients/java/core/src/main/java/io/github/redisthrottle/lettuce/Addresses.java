package io.github.redisthrottle.lettuce;

import io.lettuce.core.RedisChannelHandler;
import io.lettuce.core.RedisConnectionStateListener;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** Where connections lead: Lettuce tells it once, before they are made. */
final class Addresses implements RedisConnectionStateListener {
  private final Map<Object, InetSocketAddress> told = new ConcurrentHashMap<>();

  @Override
  public void onRedisConnected(RedisChannelHandler<?, ?> connection, SocketAddress address) {
    if (address instanceof InetSocketAddress place) {
      told.put(connection, place);
    }
  }

  @Override
  public void onRedisDisconnected(RedisChannelHandler<?, ?> connection) {
    told.remove(connection);
  }

  /** Returns where a connection leads; null if that is not known. It is told only once. */
  InetSocketAddress take(Object connection) {
    return told.remove(connection);
  }
}
