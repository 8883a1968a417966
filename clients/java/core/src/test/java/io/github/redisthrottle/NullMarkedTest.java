package io.github.redisthrottle;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redisthrottle.connection.Command;
import io.github.redisthrottle.testing.Server;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

/** What may be null is said in every package that users get, and NullAway checks it when the package is compiled. */
class NullMarkedTest {
  @Test
  void everyPackageIsMarked() throws IOException {
    List<String> unmarked = new ArrayList<>();
    int packages = 0;
    for (String module : List.of("core", "spring-boot-starter", "spring-cloud-gateway")) {
      try (Stream<Path> files = Files.walk(Server.ROOT.resolve("clients/java").resolve(module).resolve("src/main/java"))) {
        for (Path folder : files.filter(NullMarkedTest::hasClasses).toList()) {
          packages++;
          Path info = folder.resolve("package-info.java");
          if (!Files.exists(info) || !Files.readString(info).contains("@NullMarked\npackage ")) {
            unmarked.add(folder.toString());
          }
        }
      }
    }
    assertEquals(List.of(), unmarked);
    assertTrue(packages > 15, packages + " packages");
  }

  private static boolean hasClasses(Path folder) {
    String[] names = Files.isDirectory(folder) ? folder.toFile().list((in, name) -> name.endsWith(".java")) : null;
    return names != null && names.length > 0;
  }

  @Test
  void programsSeeWhatMayBeNull() {
    assertTrue(Command.class.getRecordComponents()[1].getAnnotatedType().isAnnotationPresent(Nullable.class));
  }
}
