package io.github.redisthrottle.spring;

import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.net.InetAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Queue;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/**
 * Many requests at once, and what became of them.
 *
 * @param statuses how many responses had each status
 * @param undecided how many of those with status 200 tell of no limit
 * @param tookMs how long each took, the shortest first
 */
public record Flood(Map<Integer, Integer> statuses, int undecided, List<Long> tookMs) {
  /** Sends requests, so many at a time, each over a connection of its own, as clients that come once do. */
  public static Flood send(int port, String path, int requests, int parallel) {
    ExecutorService threads = Executors.newFixedThreadPool(parallel);
    Map<Integer, Integer> statuses = new TreeMap<>();
    int undecided = 0;
    List<CompletableFuture<String>> sent = new ArrayList<>();
    Queue<Long> took = new ConcurrentLinkedQueue<>();
    for (int i = 0; i < requests; i++) {
      sent.add(CompletableFuture.supplyAsync(() -> response(port, path, took), threads));
    }
    for (CompletableFuture<String> one : sent) {
      String response = one.join();
      int status = Integer.parseInt(response.substring(9, 12));
      statuses.merge(status, 1, Integer::sum);
      undecided += status == 200 && !response.toLowerCase(Locale.ROOT).contains("\r\nratelimit:") ? 1 : 0;
    }
    threads.shutdown();
    return new Flood(statuses, undecided, took.stream().sorted().toList());
  }

  /**
   * Sends floods to two paths in turns, so that a machine which others use is as busy for the one as for the other, and
   * returns what became of all requests to each.
   */
  static List<Flood> inTurns(int port, String one, String other, int rounds, int requests, int parallel) {
    Flood first = send(port, one, requests, parallel);
    Flood second = send(port, other, requests, parallel);
    for (int i = 1; i < rounds; i++) {
      first = first.and(send(port, one, requests, parallel));
      second = second.and(send(port, other, requests, parallel));
    }
    return List.of(first, second);
  }

  private Flood and(Flood next) {
    Map<Integer, Integer> all = new TreeMap<>(statuses);
    next.statuses.forEach((status, count) -> all.merge(status, count, Integer::sum));
    return new Flood(all, undecided + next.undecided, Stream.of(tookMs, next.tookMs).flatMap(List::stream).sorted().toList());
  }

  private static String response(int port, String path, Queue<Long> took) {
    long began = System.nanoTime();
    try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), port)) {
      socket.setSoTimeout(300_000);
      socket.getOutputStream().write(("GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").getBytes(StandardCharsets.US_ASCII));
      String response = new String(socket.getInputStream().readAllBytes(), StandardCharsets.ISO_8859_1);
      took.add(TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - began));
      return response;
    } catch (IOException e) {
      throw new IllegalStateException(e);
    }
  }

  /** Returns what make test-load shows. */
  @Override
  public String toString() {
    long median = tookMs.get(tookMs.size() / 2);
    long late = tookMs.get(tookMs.size() * 99 / 100);
    return "by status " + statuses + ", undecided " + undecided + ", half within " + median + " ms, 99 % within " + late + " ms";
  }

  /** Returns how many responses had a status. */
  public int count(int status) {
    return statuses.getOrDefault(status, 0);
  }

  /** Computes for 10 ms of the processor, as a handler that is at work: others that do so at the same time share it. */
  public static String work() {
    ThreadMXBean threads = ManagementFactory.getThreadMXBean();
    long ends = threads.getCurrentThreadCpuTime() + 10_000_000;
    while (threads.getCurrentThreadCpuTime() - ends < 0) {
      Thread.onSpinWait();
    }
    return Thread.currentThread().getName();
  }
}
