package io.github.redisthrottle.http;

import java.math.BigInteger;
import java.util.regex.Pattern;

/** The addresses that have the first bits in common. */
record Network(Address first, int bits) {
  private static final Pattern LENGTH = Pattern.compile("0|[1-9][0-9]{0,2}");

  static Network parse(String argument, String text) {
    String[] parts = text.split("/", -1);
    Address address = text.contains("%") ? null : Address.parse(parts[0]);
    if (address == null || parts.length > 2 || (parts.length == 2 && !LENGTH.matcher(parts[1]).matches())) {
      throw wrong(argument, text, ", such as 10.1.0.0/24");
    }
    int mapped = address.bits() == 32 && text.contains(":") ? 96 : 0;
    int bits = parts.length == 1 ? address.bits() : Integer.parseInt(parts[1]) - mapped;
    if (bits < 0 || bits > address.bits()) {
      throw wrong(argument, text, ", such as 10.1.0.0/24");
    }
    Address first = address.network(bits);
    if (!first.equals(address)) {
      throw wrong(argument, text, ": write " + first + "/" + bits + ", or the address " + address);
    }
    return new Network(first, bits);
  }

  boolean contains(Address address) {
    return address.bits() == first.bits() && address.network(bits).equals(first);
  }

  private static IllegalArgumentException wrong(String argument, String text, String right) {
    return new IllegalArgumentException(argument + ": \"" + text + "\" is no address and no network" + right);
  }

  /** Returns the address with what is behind the first bits set to 0. */
  static BigInteger masked(BigInteger value, int of, int bits) {
    int rest = of - bits;
    return value.shiftRight(rest).shiftLeft(rest);
  }
}
