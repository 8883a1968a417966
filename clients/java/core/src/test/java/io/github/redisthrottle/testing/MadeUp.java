package io.github.redisthrottle.testing;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Deque;
import java.util.List;

/**
 * A server that expects words and answers with replies, one exchange after the other. It knows little else of the
 * protocol.
 */
public final class MadeUp implements AutoCloseable {
  private static final String HELLO = "%3\r\n+server\r\n+redis\r\n+version\r\n+7.0.0\r\n+proto\r\n:3\r\n";

  public final List<String> problems = Collections.synchronizedList(new ArrayList<>());
  private final Deque<JsonNode> exchanges = new ArrayDeque<>();
  private final ServerSocket listener;

  public MadeUp() {
    try {
      listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
    } catch (IOException e) {
      throw new IllegalStateException(e);
    }
    inBackground(this::accept);
  }

  public int port() {
    return listener.getLocalPort();
  }

  public synchronized void expect(JsonNode cases) {
    exchanges.clear();
    cases.forEach(exchanges::add);
  }

  public synchronized int left() {
    return exchanges.size();
  }

  @Override
  public void close() throws IOException {
    listener.close();
  }

  private void accept() {
    while (!listener.isClosed()) {
      try {
        Socket socket = listener.accept();
        inBackground(() -> serve(socket));
      } catch (IOException e) {
        return;
      }
    }
  }

  private static void inBackground(Runnable work) {
    Thread thread = new Thread(work, "made-up");
    thread.setDaemon(true);
    thread.start();
  }

  private void serve(Socket socket) {
    try (socket) {
      InputStream in = new BufferedInputStream(socket.getInputStream());
      OutputStream out = socket.getOutputStream();
      while (true) {
        List<String> words = read(in);
        String answer = answer(words);
        if (answer == null) {
          return;
        }
        out.write(answer.getBytes(StandardCharsets.UTF_8));
        out.flush();
      }
    } catch (IOException | NumberFormatException e) {
      // The client has left.
    }
  }

  private static List<String> read(InputStream in) throws IOException {
    List<String> words = new ArrayList<>();
    for (int left = Integer.parseInt(line(in).substring(1)); left > 0; left--) {
      int length = Integer.parseInt(line(in).substring(1));
      words.add(new String(in.readNBytes(length + 2), 0, length, StandardCharsets.UTF_8));
    }
    return words;
  }

  private static String line(InputStream in) throws IOException {
    StringBuilder line = new StringBuilder();
    for (int at = in.read(); at != '\n'; at = in.read()) {
      if (at < 0) {
        throw new IOException("closed");
      }
      line.append((char) at);
    }
    return line.substring(0, line.length() - 1);
  }

  private synchronized String answer(List<String> words) {
    if (!words.get(0).startsWith("CL.")) {
      return words.get(0).equals("HELLO") ? HELLO : words.get(0).equals("PING") ? "+PONG\r\n" : "+OK\r\n";
    }
    JsonNode exchange = exchanges.poll();
    if (exchange == null) {
      problems.add("nothing more was expected, and " + words + " came");
      return "-ERR unexpected\r\n";
    }
    List<String> sends = new ArrayList<>();
    exchange.get("sends").forEach(word -> sends.add(word.asText()));
    if (!sends.equals(words)) {
      problems.add("expected " + sends + ", and " + words + " came");
    }
    JsonNode reply = exchange.get("reply");
    return reply.has("closes") ? null : encode(reply);
  }

  private static String encode(JsonNode reply) {
    if (reply.has("error")) {
      return "-" + reply.get("error").asText() + "\r\n";
    }
    if (reply.isIntegralNumber()) {
      return ":" + reply.asLong() + "\r\n";
    }
    if (reply.isTextual()) {
      return "$" + reply.asText().getBytes(StandardCharsets.UTF_8).length + "\r\n" + reply.asText() + "\r\n";
    }
    StringBuilder text = new StringBuilder("*" + reply.size() + "\r\n");
    reply.forEach(part -> text.append(encode(part)));
    return text.toString();
  }
}
