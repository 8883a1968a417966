package io.github.redisthrottle.http;

import java.util.List;

/**
 * Addresses and networks of clients that are not limited, such as 10.0.0.0/8, 2001:db8::/32 and 127.0.0.1. IPv4 inside
 * IPv6 is IPv4. Whether a request comes from one, {@link ClientAddress#isFrom} says.
 */
public final class Networks {
  private final List<Network> all;

  private Networks(List<Network> all) {
    this.all = all;
  }

  /** Reads them. A network is written by its first address. */
  public static Networks of(List<String> networks) {
    return of("networks", networks);
  }

  static Networks of(String argument, List<String> networks) {
    return new Networks(networks.stream().map(text -> Network.parse(argument, text)).toList());
  }

  boolean contains(Address address) {
    return all.stream().anyMatch(network -> network.contains(address));
  }
}
