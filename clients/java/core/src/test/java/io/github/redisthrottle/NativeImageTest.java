package io.github.redisthrottle;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.github.redisthrottle.testing.Server;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/**
 * A native image keeps what this package looks up by name: its files of META-INF/native-image are compared with the
 * code.
 */
class NativeImageTest {
  private static final String FOLDER = "/META-INF/native-image/io.github.redisthrottle/redis-throttle/";
  private static final Path SOURCES = Server.ROOT.resolve("clients/java/core/src/main/java");
  private static final Pattern LOOKS_UP =
      Pattern.compile("forName\\(|getDeclared\\w+\\(|getMethods?\\(|getFields?\\(|setAccessible\\(|newProxyInstance\\(|ServiceLoader|getResource(AsStream)?\\(");
  private static final Pattern FIELD = Pattern.compile("[ (]field\\(\"(\\w+)\"\\)");

  private static JsonNode read(String name) throws IOException {
    try (InputStream in = NativeImageTest.class.getResourceAsStream(FOLDER + name)) {
      return new ObjectMapper().readTree(in);
    }
  }

  private static String text(Path file) {
    try {
      return Files.readString(file);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  @Test
  void noOtherClassLooksAnythingUp() throws IOException {
    try (Stream<Path> files = Files.walk(SOURCES)) {
      Set<String> found = new TreeSet<>();
      files.filter(file -> file.toString().endsWith(".java") && LOOKS_UP.matcher(text(file)).find()).forEach(file -> found.add(file.getFileName().toString()));
      assertEquals(Set.of("Library.java", "Peer.java"), found);
    }
  }

  @Test
  void theFieldsOfJedisAreKept() throws IOException, ReflectiveOperationException {
    Set<String> used = new TreeSet<>();
    Matcher matcher = FIELD.matcher(text(SOURCES.resolve("io/github/redisthrottle/jedis/Peer.java")));
    while (matcher.find()) {
      used.add(matcher.group(1));
    }
    Set<String> kept = new TreeSet<>();
    for (JsonNode type : read("reflect-config.json")) {
      assertNotNull(Class.forName(type.at("/condition/typeReachable").asText()));
      for (JsonNode field : type.get("fields")) {
        assertNotNull(Class.forName(type.get("name").asText()).getDeclaredField(field.get("name").asText()));
        kept.add(field.get("name").asText());
      }
    }
    assertEquals(used, kept);
    assertFalse(used.isEmpty());
  }

  @Test
  void theFunctionLibraryIsKept() throws IOException {
    JsonNode patterns = read("resource-config.json").at("/resources/includes");
    assertEquals(1, patterns.size());
    String library = "io/github/redisthrottle/throttle.lua";
    assertNotNull(getClass().getResource("/" + library));
    assertEquals(true, Pattern.matches(patterns.get(0).get("pattern").asText(), library));
  }
}
