package io.github.redisthrottle.testing;

import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;
import java.util.spi.ToolProvider;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * The public interface of a module, as a text: a change of it is seen in the difference. RENEW=1 writes the text anew.
 */
public final class Api {
  private static final String RENEW = "RENEW=1 scripts/test-clients java -Dtest=ApiTest -Dsurefire.failIfNoSpecifiedTests=false";
  private static final Path JAVA = Server.ROOT.resolve("clients/java");

  private static final Pattern COMPILED = Pattern.compile("(?m)^Compiled from .*\n");

  private Api() {}

  /** Fails if the interface of a module is another one than its api.txt says. */
  public static void check(String module) throws IOException {
    Path file = JAVA.resolve(module).resolve("api.txt");
    String now = text(JAVA.resolve(module).resolve("target/classes"));
    if (System.getenv("RENEW") != null) {
      Files.writeString(file, now);
    }
    if (!now.equals(Files.readString(file))) {
      List<String> said = Files.readAllLines(file);
      List<String> gone = said.stream().filter(line -> !now.contains(line)).toList();
      List<String> come = now.lines().filter(line -> !said.contains(line)).toList();
      throw new AssertionError(
          "the interface has changed: if that is meant, run " + RENEW + ", and look at the difference.\nGone: " + gone + "\nCome: " + come);
    }
  }

  /**
   * Returns what users may call and extend. It is read from the files of classes, since some need another framework
   * than is there.
   */
  private static String text(Path classes) throws IOException {
    List<String> words = new ArrayList<>(List.of("-protected", "-constants", "-cp", classes.toString()));
    try (Stream<Path> files = Files.walk(classes)) {
      files.map(file -> classes.relativize(file).toString().replace('\\', '/')).filter(Api::isClass).sorted().forEach(name -> words.add(classes + "/" + name));
    }
    StringWriter out = new StringWriter();
    PrintWriter printer = new PrintWriter(out);
    int rc = ToolProvider.findFirst("javap").orElseThrow().run(printer, printer, words.toArray(String[]::new));
    if (rc != 0) {
      throw new IllegalStateException("javap: " + out);
    }
    return COMPILED
        .splitAsStream(out.toString().replace("\r\n", "\n"))
        .filter(declared -> declared.startsWith("public "))
        .collect(Collectors.joining("\n"));
  }

  private static boolean isClass(String name) {
    return name.endsWith(".class") && !name.endsWith("package-info.class");
  }
}
