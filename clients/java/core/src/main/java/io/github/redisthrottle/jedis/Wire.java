package io.github.redisthrottle.jedis;

import io.github.redisthrottle.connection.Command;
import io.github.redisthrottle.connection.ErrorReply;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.exceptions.JedisConnectionException;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.exceptions.JedisRedirectionException;
import redis.clients.jedis.util.SafeEncoder;

/** Commands and replies on a connection. */
final class Wire {
  private Wire() {}

  /** Sends a command once, and returns its reply. */
  static Object once(Taken taken, Command command) {
    try {
      return plain(taken.connection().executeCommand(arguments(command)));
    } catch (JedisRedirectionException e) {
      throw e;
    } catch (JedisDataException e) {
      return reply(taken, e);
    } catch (JedisConnectionException e) {
      failed(taken, e);
      throw e;
    }
  }

  /**
   * Says that a connection has failed. Whether the others have, too, when a reply is only late, is judged by whoever
   * waits for it.
   */
  private static void failed(Taken taken, JedisConnectionException error) {
    if (!JedisErrors.isTimeout(error)) {
      taken.failed();
    }
  }

  /** Sends commands in one round trip, and returns their replies: a redirection as its exception. */
  static List<Object> all(Taken taken, List<Command> commands) {
    try {
      commands.forEach(command -> taken.connection().sendCommand(arguments(command)));
      List<Object> replies = new ArrayList<>(commands.size());
      for (Object reply : taken.connection().getMany(commands.size())) {
        boolean isError = reply instanceof JedisDataException && !(reply instanceof JedisRedirectionException);
        replies.add(isError ? reply(taken, (JedisDataException) reply) : reply instanceof JedisRedirectionException ? reply : plain(reply));
      }
      return replies;
    } catch (JedisConnectionException e) {
      failed(taken, e);
      throw e;
    }
  }

  private static ErrorReply reply(Taken taken, JedisDataException error) {
    ErrorReply reply = new ErrorReply(String.valueOf(error.getMessage()));
    if (reply.code().equals("NOAUTH")) { // about the connection, not the call: without a password Jedis begins with no handshake
      throw error;
    }
    if (reply.isNoMaster()) { // the next connection may lead to another server
      taken.connection().setBroken();
      taken.failed();
    }
    return reply;
  }

  static CommandArguments arguments(Command command) {
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
