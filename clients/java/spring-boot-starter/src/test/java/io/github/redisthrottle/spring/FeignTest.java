package io.github.redisthrottle.spring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.sun.net.httpserver.HttpServer;
import io.github.redisthrottle.LimitedException;
import io.github.redisthrottle.spring.outgoing.LimitedFeign;
import io.github.redisthrottle.spring.outgoing.OutgoingLimits;
import io.github.redisthrottle.testing.Server;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.springframework.boot.WebApplicationType;
import org.springframework.cloud.openfeign.EnableFeignClients;
import org.springframework.cloud.openfeign.FeignClient;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.web.bind.annotation.GetMapping;

/** A client of Spring Cloud OpenFeign, with the interceptor as a bean of its configuration. */
class FeignTest {
  /** The service. */
  @FeignClient(name = "service", url = "${service.url}", configuration = Limited.class)
  interface Service {
    @GetMapping("/")
    void get();
  }

  /** Another one, which nothing limits. */
  @FeignClient(name = "other", url = "${service.url}")
  interface Other {
    @GetMapping("/")
    void get();
  }

  static class Limited {
    @Bean
    LimitedFeign limited(OutgoingLimits limits) {
      return new LimitedFeign(limits.get("service"));
    }
  }

  @Configuration(proxyBeanMethods = false)
  @EnableFeignClients(clients = {Service.class, Other.class})
  static class Clients {}

  @Test
  void aClientOfTheApplicationKeepsToItsLimits() throws IOException {
    AtomicInteger served = new AtomicInteger();
    HttpServer service = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
    service.createContext(
        "/",
        exchange -> {
          served.incrementAndGet();
          exchange.sendResponseHeaders(200, -1);
          exchange.close();
        });
    service.start();
    String url = "service.url=http://127.0.0.1:" + service.getAddress().getPort();
    try (Server server = Server.start();
        Application application = Application.start(WebApplicationType.NONE, server, List.of(Clients.class), url, "redis-throttle.outgoing.service.limits=RATE 2/h")) {
      Service limited = application.bean(Service.class);
      limited.get();
      limited.get();
      assertThrows(LimitedException.class, limited::get);
      assertEquals(2, served.get());
      application.bean(Other.class).get();
      assertEquals(3, served.get());
    } finally {
      service.stop(0);
    }
  }
}
