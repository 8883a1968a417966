package io.github.redisthrottle.testing;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/**
 * A long way to a server: what is sent and what is answered takes some time each. Its new connections may lead to
 * another one later.
 */
public final class Slow implements AutoCloseable {
  private final ServerSocket socket;
  private final Queue<Socket> open = new ConcurrentLinkedQueue<>();
  private volatile int to;
  private final long ms;
  private final AtomicLong held = new AtomicLong();
  private volatile String lost = "\0";

  public Slow(Server server, long ms) throws IOException {
    this.socket = new ServerSocket(0);
    this.to = server.port;
    this.ms = ms;
    start(this::accept);
  }

  public int port() {
    return socket.getLocalPort();
  }

  /** Has new connections lead to another server. Those that are open stay where they are. */
  public void leadTo(Server server) {
    to = server.port;
  }

  /** Has the next connection carry nothing for a while. */
  public void holdNext(long forMs) {
    held.set(forMs);
  }

  /** Has a connection carry nothing any more once a word was sent over it, as a balancer that forgets it. */
  public void lose(String word) {
    lost = word;
  }

  private static void start(Runnable work) {
    Thread thread = new Thread(work, "slow");
    thread.setDaemon(true);
    thread.start();
  }

  private void accept() {
    try {
      while (true) {
        Socket from = socket.accept();
        Socket server = new Socket(InetAddress.getLoopbackAddress(), to);
        open.add(from);
        open.add(server);
        long hold = held.getAndSet(0);
        start(() -> carry(from, server, hold));
        start(() -> carry(server, from, 0));
      }
    } catch (IOException e) {
      // It is closed.
    }
  }

  private void carry(Socket from, Socket there, long hold) {
    byte[] buffer = new byte[64 * 1024];
    try (from;
        there) {
      InputStream in = from.getInputStream();
      OutputStream out = there.getOutputStream();
      TimeUnit.MILLISECONDS.sleep(hold);
      boolean isLost = false;
      for (int read = in.read(buffer); read >= 0; read = in.read(buffer)) {
        TimeUnit.MILLISECONDS.sleep(ms);
        isLost |= new String(buffer, 0, read, StandardCharsets.ISO_8859_1).contains(lost);
        if (!isLost) {
          out.write(buffer, 0, read);
        }
      }
    } catch (IOException | InterruptedException e) {
      // One of the two is closed.
    }
  }

  @Override
  public void close() throws IOException {
    socket.close();
    for (Socket each : open) {
      each.close();
    }
  }
}
