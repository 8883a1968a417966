package io.github.redisthrottle;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The commands as a library of functions, which the package carries, and as a script. */
final class Library {
  private static final Set<String> READING = Set.of("cl_peek", "cl_leases", "cl_inspect");
  private static final String TEXT = read();

  /** The library without its first line. */
  static final String SCRIPT = TEXT.substring(TEXT.indexOf('\n') + 1);

  /** Its version: major x 10000 + minor x 100 + patch. */
  static final long VERSION = version();

  /** The library under a name with its version, so that no other version is put over it, nor it over another one. */
  static final String NAMED = TEXT.replaceFirst("#!lua name=throttle", "#!lua name=throttle_" + VERSION);

  private static final String SHA = sha();

  private Library() {}

  static String dotted(long version) {
    return version / 10_000 + "." + version / 100 % 100 + "." + version % 100;
  }

  /** Returns a command of the module as a call of a function. */
  static List<String> asFunction(List<String> words) {
    String name = name(words);
    List<String> made = new ArrayList<>(List.of(READING.contains(name) ? "FCALL_RO" : "FCALL", name));
    keys(words, made);
    made.addAll(rest(words));
    return made;
  }

  /** Returns a command of the module as a call of the script, by its name or as a whole. */
  static List<String> asScript(List<String> words, boolean whole) {
    String name = name(words);
    List<String> made = new ArrayList<>();
    made.add((whole ? "EVAL" : "EVALSHA") + (READING.contains(name) ? "_RO" : ""));
    made.add(whole ? SCRIPT : SHA);
    keys(words, made);
    made.add(name);
    made.addAll(rest(words));
    return made;
  }

  /** Returns a call of a script as one of a script that may write, for servers that have no command for others. */
  static List<String> mayWrite(List<String> script) {
    List<String> made = new ArrayList<>(script);
    made.set(0, script.get(0).replace("_RO", ""));
    return made;
  }

  private static String name(List<String> words) {
    return words.get(0).toLowerCase(Locale.ROOT).replace('.', '_');
  }

  private static boolean isAboutSeveral(List<String> words) {
    return words.get(0).equals("CL.MLIMIT") || words.get(0).equals("CL.SETTLE");
  }

  private static void keys(List<String> words, List<String> made) {
    int first = isAboutSeveral(words) ? 2 : 1;
    int last = first + (first == 2 ? Integer.parseInt(words.get(1)) : 1);
    made.add(String.valueOf(last - first));
    made.addAll(words.subList(first, last));
  }

  private static List<String> rest(List<String> words) {
    return words.subList(isAboutSeveral(words) ? 2 + Integer.parseInt(words.get(1)) : 2, words.size());
  }

  private static long version() {
    Matcher matcher = Pattern.compile("(?m)^local VERSION = (\\d+)").matcher(TEXT);
    if (!matcher.find()) {
      throw new IllegalStateException("throttle.lua has no version");
    }
    return Long.parseLong(matcher.group(1));
  }

  private static String sha() {
    try {
      return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-1").digest(SCRIPT.getBytes(StandardCharsets.UTF_8)));
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException(e);
    }
  }

  private static String read() {
    try (InputStream in = Library.class.getResourceAsStream("throttle.lua")) {
      return new String(in.readAllBytes(), StandardCharsets.UTF_8);
    } catch (IOException e) {
      throw new IllegalStateException(e);
    }
  }
}
