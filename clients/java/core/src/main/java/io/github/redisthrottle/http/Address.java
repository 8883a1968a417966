package io.github.redisthrottle.http;

import java.math.BigInteger;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/** An address of IPv4 or IPv6. One of IPv4 inside IPv6 is one of IPv4, and a zone is left out. */
record Address(BigInteger value, int bits) {
  private static final Pattern V4 = Pattern.compile("(0|[1-9][0-9]{0,2})\\.(0|[1-9][0-9]{0,2})\\.(0|[1-9][0-9]{0,2})\\.(0|[1-9][0-9]{0,2})");
  private static final Pattern ENTRY = Pattern.compile("([0-9.]+):([0-9]{1,5})|\\[([^\\[\\]]*:[^\\[\\]]*)\\](?::([0-9]{1,5}))?");
  private static final BigInteger MAPPED = BigInteger.valueOf(0xffff);

  /**
   * Reads an entry of X-Forwarded-For: an address, with or without a port, or brackets around one of IPv6; null is
   * none.
   */
  static @Nullable Address entry(String text) {
    String trimmed = text.replaceAll("^[ \\t]+|[ \\t]+$", "");
    Matcher matcher = ENTRY.matcher(trimmed);
    if (!matcher.matches()) {
      return parse(trimmed);
    }
    String port = matcher.group(2) != null ? matcher.group(2) : matcher.group(4);
    if (port != null && Integer.parseInt(port) > 65_535) {
      return null;
    }
    return parse(matcher.group(1) != null ? matcher.group(1) : matcher.group(3));
  }

  /** Reads an address; null is none. */
  static @Nullable Address parse(String text) {
    return text.contains(":") ? v6(text) : v4(text);
  }

  /** Returns the first address of its network. */
  Address network(int length) {
    return new Address(Network.masked(value, bits, length), bits);
  }

  private static @Nullable Address v4(String text) {
    Matcher matcher = V4.matcher(text);
    if (!matcher.matches()) {
      return null;
    }
    long value = 0;
    for (int i = 1; i <= 4; i++) {
      int part = Integer.parseInt(matcher.group(i));
      if (part > 255) {
        return null;
      }
      value = value << 8 | part;
    }
    return new Address(BigInteger.valueOf(value), 32);
  }

  private static @Nullable Address v6(String text) {
    int zone = text.indexOf('%');
    if (zone >= 0 && (zone == text.length() - 1 || text.indexOf('%', zone + 1) >= 0)) {
      return null;
    }
    String rest = zone < 0 ? text : text.substring(0, zone);
    int gap = rest.indexOf("::");
    List<Integer> head = groups(gap < 0 ? rest : rest.substring(0, gap), gap < 0);
    List<Integer> tail = gap < 0 ? List.of() : groups(rest.substring(gap + 2), true);
    int missing = head == null || tail == null ? -1 : 8 - head.size() - tail.size();
    if (missing < 0 || (gap < 0 ? missing != 0 : missing < 1)) {
      return null;
    }
    List<Integer> all = new ArrayList<>(head);
    for (int i = 0; i < missing; i++) {
      all.add(0);
    }
    all.addAll(tail);
    BigInteger value = BigInteger.ZERO;
    for (int group : all) {
      value = value.shiftLeft(16).or(BigInteger.valueOf(group));
    }
    boolean mapped = value.shiftRight(32).equals(MAPPED);
    return mapped ? new Address(value.and(BigInteger.valueOf(0xffff_ffffL)), 32) : new Address(value, 128);
  }

  /**
   * Reads groups of four digits, of which the last two may be written as IPv4 at the end of an address; null is none.
   */
  private static @Nullable List<Integer> groups(String text, boolean isEnd) {
    List<Integer> groups = new ArrayList<>();
    if (text.isEmpty()) {
      return groups;
    }
    String[] parts = text.split(":", -1);
    for (int i = 0; i < parts.length; i++) {
      if (isEnd && i == parts.length - 1 && parts[i].contains(".")) {
        Address v4 = v4(parts[i]);
        if (v4 == null) {
          return null;
        }
        groups.add(v4.value.intValue() >>> 16);
        groups.add(v4.value.intValue() & 0xffff);
      } else if (parts[i].matches("[0-9a-fA-F]{1,4}")) {
        groups.add(Integer.parseInt(parts[i], 16));
      } else {
        return null;
      }
    }
    return groups;
  }

  @Override
  public String toString() {
    if (bits == 32) {
      long n = value.longValueExact();
      return (n >> 24) + "." + (n >> 16 & 255) + "." + (n >> 8 & 255) + "." + (n & 255);
    }
    int[] groups = new int[8];
    int best = -1;
    int longest = 1; // a lone group of zeros is written out (RFC 5952)
    for (int i = 0, run = 0; i < 8; i++) {
      groups[i] = value.shiftRight(16 * (7 - i)).intValue() & 0xffff;
      run = groups[i] == 0 ? run + 1 : 0;
      if (run > longest) {
        longest = run;
        best = i - run + 1;
      }
    }
    StringBuilder text = new StringBuilder();
    for (int i = 0; i < 8; i++) {
      if (i == best) {
        text.append("::");
        i += longest - 1;
        continue;
      }
      text.append(text.isEmpty() || text.charAt(text.length() - 1) == ':' ? "" : ":").append(Integer.toHexString(groups[i]));
    }
    return text.toString();
  }
}
