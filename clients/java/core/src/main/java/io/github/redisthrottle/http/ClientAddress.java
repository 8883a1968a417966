package io.github.redisthrottle.http;

import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Which key the address of a client makes: 203.0.113.7, or 2001:db8:1:2::/64, since a host may use all addresses of its
 * network. IPv4 inside IPv6 is IPv4.
 *
 * <p>The client of a request that comes from a trusted proxy is read from X-Forwarded-For: it is the first address from
 * the right that is not trusted. Trust proxies alone, and only those that append to the field or replace it. A peer
 * without an address, as at a Unix socket, is a proxy on this machine.
 */
public final class ClientAddress {
  /** The key of all requests without an address: they are limited together. */
  public static final String NOBODY = "@";

  private final Networks trusted;
  private final int ipv6;

  private ClientAddress(Networks trusted, int ipv6) {
    this.trusted = trusted;
    this.ipv6 = ipv6;
  }

  /** Trusts no proxy, and counts IPv6 by networks of /64. */
  public static ClientAddress ofPeer() {
    return behind(List.of());
  }

  /** Trusts proxies: addresses and networks such as 10.1.0.0/24. */
  public static ClientAddress behind(List<String> trusted) {
    return new ClientAddress(Networks.of("trusted", trusted), 64);
  }

  /**
   * Returns this with another length of the prefix that the IPv6 addresses of a client have in common, from 1 to 128.
   */
  public ClientAddress ipv6(int length) {
    if (length < 1 || length > 128) {
      throw new IllegalArgumentException("ipv6 must be the length of a prefix, from 1 to 128, not " + length);
    }
    return new ClientAddress(trusted, length);
  }

  /**
   * Returns the key of a request.
   *
   * @param peer the address that the connection comes from; null or empty without one
   * @param forwarded the values of X-Forwarded-For, in the order of the request
   */
  public String key(@Nullable String peer, List<String> forwarded) {
    Address client = client(peer, forwarded).address();
    if (client == null) {
      return NOBODY;
    }
    return client.bits() == 32 ? client.toString() : client.network(ipv6) + "/" + ipv6;
  }

  /**
   * Returns whether a request comes from networks. It does not where that is not certain: if its client passes on what
   * others said, as a proxy does that is not trusted, if an entry is no address, and if there is no address.
   *
   * @param networks the networks
   * @param peer the address that the connection comes from; null or empty without one
   * @param forwarded the values of X-Forwarded-For, in the order of the request
   */
  public boolean isFrom(Networks networks, @Nullable String peer, List<String> forwarded) {
    Client client = client(peer, forwarded);
    return client.alone() && client.address() != null && networks.contains(client.address());
  }

  /**
   * A client. It is alone if nothing is left to read but perhaps its own address, which a server before this one has
   * read.
   */
  private record Client(@Nullable Address address, boolean alone) {}

  /** Walks from the peer to the client, from the right end of X-Forwarded-For, where the nearest proxy wrote. */
  private Client client(@Nullable String peer, List<String> forwarded) {
    Address at = peer == null ? null : Address.entry(peer);
    String[] entries = forwarded.isEmpty() ? new String[0] : String.join(",", forwarded).split(",", -1);
    for (int i = entries.length - 1; i >= 0; i--) {
      Address next = Address.entry(entries[i]);
      if (at != null && !trusted.contains(at)) {
        return new Client(at, i == 0 && at.equals(next));
      }
      if (next == null) {
        return new Client(at, false);
      }
      at = next;
    }
    return new Client(at, true);
  }
}
