package io.github.redisthrottle.http;

import java.math.BigInteger;

/** The addresses that have the first bits in common. */
record Network(Address first, int bits) {
  static Network parse(String text) {
    int slash = text.indexOf('/');
    Address first = Address.parse(slash < 0 ? text : text.substring(0, slash));
    if (first == null) {
      throw wrong(text);
    }
    boolean mapped = first.bits() == 32 && text.contains(":");
    int bits = slash < 0 ? first.bits() : bits(text, text.substring(slash + 1)) - (mapped ? 96 : 0);
    if (bits < 0 || bits > first.bits() || !first.network(bits).equals(first)) {
      throw wrong(text);
    }
    return new Network(first, bits);
  }

  boolean contains(Address address) {
    return address.bits() == first.bits() && address.network(bits).equals(first);
  }

  private static int bits(String text, String number) {
    try {
      return Integer.parseInt(number);
    } catch (NumberFormatException e) {
      throw new IllegalArgumentException(wrong(text).getMessage(), e);
    }
  }

  private static IllegalArgumentException wrong(String text) {
    return new IllegalArgumentException("trusted: \"" + text + "\" is no address and no network such as 10.1.0.0/24");
  }

  /** Returns the address with what is behind the first bits set to 0. */
  static BigInteger masked(BigInteger value, int of, int bits) {
    int rest = of - bits;
    return value.shiftRight(rest).shiftLeft(rest);
  }
}
