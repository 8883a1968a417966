package io.github.redisthrottle.connection;

import java.security.cert.CertificateException;
import java.security.cert.CertificateExpiredException;
import org.jspecify.annotations.Nullable;

/**
 * Certificates of servers that this process does not accept. That is a mistake, which lets nobody through: who answers
 * may be anybody.
 */
public final class Certificates {
  private Certificates() {}

  /** Returns why the certificate of a server was refused; null of an error that is about something else. */
  public static @Nullable String refused(Throwable error) {
    boolean isRefused = false;
    Throwable last = error;
    for (Throwable at = error; at != null; at = at.getCause()) {
      isRefused |= at instanceof CertificateException;
      last = at;
    }
    if (!isRefused) {
      return null;
    }
    return "the certificate of the server " + (last instanceof CertificateExpiredException ? "has expired: " : "is not trusted: ") + last.getMessage();
  }
}
