package io.github.redisthrottle.spring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.net.URL;
import java.util.Collections;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.junit.jupiter.api.Test;

/** What editors know of the properties in application.yml. */
class MetadataTest {
  private static JsonNode metadata() throws IOException {
    for (URL url : Collections.list(MetadataTest.class.getClassLoader().getResources("META-INF/spring-configuration-metadata.json"))) {
      JsonNode read = new ObjectMapper().readTree(url);
      if (read.toString().contains("redis-throttle.routes")) {
        return read;
      }
    }
    throw new AssertionError("there is no metadata");
  }

  @Test
  void everyPropertyIsDescribed() throws IOException {
    Map<String, String> defaults = new TreeMap<>();
    for (JsonNode property : metadata().get("properties")) {
      assertTrue(property.path("description").asText().endsWith("."), property::toString);
      assertTrue(property.hasNonNull("type"), property::toString);
      defaults.put(property.get("name").asText(), property.path("defaultValue").asText());
    }
    assertEquals(
        Set.of(
            "management.endpoint.ratelimits.access",
            "management.endpoint.ratelimits.cache.time-to-live",
            "management.endpoint.ratelimits.enabled",
            "management.health.redis-throttle.enabled",
            "redis-throttle.enabled",
            "redis-throttle.clients.ipv6",
            "redis-throttle.clients.trusted",
            "redis-throttle.gateway.replace-redis-rate-limiter",
            "redis-throttle.limits",
            "redis-throttle.local.keys",
            "redis-throttle.local.never-more",
            "redis-throttle.local.processes",
            "redis-throttle.mistake",
            "redis-throttle.outage",
            "redis-throttle.outgoing",
            "redis-throttle.overload",
            "redis-throttle.policies.enabled",
            "redis-throttle.policies.hash",
            "redis-throttle.policies.refresh",
            "redis-throttle.poll",
            "redis-throttle.preflights",
            "redis-throttle.retry-after",
            "redis-throttle.routes",
            "redis-throttle.timeout",
            "redis-throttle.url",
            "redis-throttle.x-rate-limit"),
        defaults.keySet());
    assertEquals("allow deny raise", defaults.get("redis-throttle.outage") + " " + defaults.get("redis-throttle.overload") + " " + defaults.get("redis-throttle.mistake"));
    assertEquals("200ms 64", defaults.get("redis-throttle.timeout") + " " + defaults.get("redis-throttle.clients.ipv6"));
  }

  @Test
  void wordsAreOffered() throws IOException {
    Map<String, Set<String>> words = new TreeMap<>();
    for (JsonNode hint : metadata().get("hints")) {
      Set<String> values = words.computeIfAbsent(hint.get("name").asText(), name -> new TreeSet<>());
      hint.get("values").forEach(value -> values.add(value.get("value").asText()));
    }
    Set<String> answers = Set.of("allow", "deny", "raise");
    assertEquals(
        Map.of("redis-throttle.outage", answers, "redis-throttle.overload", answers, "redis-throttle.mistake", answers, "redis-throttle.x-rate-limit", Set.of("seconds", "unix")),
        words);
  }
}
