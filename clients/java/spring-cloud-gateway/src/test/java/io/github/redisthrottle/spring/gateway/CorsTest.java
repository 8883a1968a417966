package io.github.redisthrottle.spring.gateway;

import static io.github.redisthrottle.spring.gateway.Gateway.properties;
import static io.github.redisthrottle.spring.gateway.Gateway.route;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redisthrottle.testing.Server;
import java.io.IOException;
import java.net.InetAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Locale;
import org.junit.jupiter.api.Test;

/** Pages of other origins: preflights are free, and a page may read why its request was denied. */
class CorsTest {
  private static final String CORS = "spring.cloud.gateway.server.webflux.globalcors.cors-configurations.[/**].";
  private static final String ORIGIN = "Origin: http://web.example";

  /** Sends a request as a browser does, which the client of the JDK refuses to. Returns the response in lower case. */
  private static String send(Gateway gateway, String method, String path, String... fields) {
    int port = Integer.parseInt(gateway.context.getEnvironment().getProperty("local.server.port"));
    String request = method + " " + path + " HTTP/1.1\r\nHost: api.example\r\nConnection: close\r\n" + String.join("\r\n", fields) + "\r\n\r\n";
    try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), port)) {
      socket.setSoTimeout(60_000);
      socket.getOutputStream().write(request.getBytes(StandardCharsets.US_ASCII));
      return new String(socket.getInputStream().readAllBytes(), StandardCharsets.ISO_8859_1).toLowerCase(Locale.ROOT);
    } catch (IOException e) {
      throw new IllegalStateException(e);
    }
  }

  @Test
  void preflightsAreFreeAndAPageReadsWhyItWasDenied() {
    String[] properties =
        properties(
            List.of(
                CORS + "allowed-origins=http://web.example",
                CORS + "exposed-headers=X-Mine",
                "redis-throttle.timeout=20s",
                "redis-throttle.gateway.replace-redis-rate-limiter=true"),
            route(0, "limiter", "RequestRateLimiter", "redis-throttle.limits=RATE 2/h", "key-resolver=#{@userKeyResolver}"),
            route(1, "filter", "Throttle", "limits=RATE 2/h", "key=query('user')"));
    try (Server server = Server.start();
        Gateway gateway = Gateway.start(server, properties)) {
      for (String path : List.of("/limiter/a?user=ann", "/filter/a?user=ann")) {
        for (int i = 0; i < 5; i++) {
          String preflight = send(gateway, "OPTIONS", path, ORIGIN, "Access-Control-Request-Method: GET");
          assertTrue(preflight.startsWith("http/1.1 200") && preflight.contains("access-control-allow-origin: http://web.example"), preflight);
        }
        for (int i = 0; i < 3; i++) {
          String response = send(gateway, "GET", path, ORIGIN);
          assertTrue(response.startsWith(i < 2 ? "http/1.1 200" : "http/1.1 429"), response);
          assertEquals(2, response.split("access-control-allow-origin: ", -1).length, response);
          for (String field : List.of("x-mine", "ratelimit, ratelimit-policy, retry-after")) {
            assertTrue(response.lines().anyMatch(line -> line.startsWith("access-control-expose-headers: ") && line.contains(field)), response);
          }
        }
        assertTrue(!send(gateway, "GET", path, "X-No: origin").contains("access-control-expose"));
      }
    }
  }
}
