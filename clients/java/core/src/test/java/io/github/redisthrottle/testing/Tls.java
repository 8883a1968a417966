package io.github.redisthrottle.testing;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.List;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** A key of a server, and its certificate, which nobody has signed but itself. */
public final class Tls implements AutoCloseable {
  private static final String HERE = "DNS:localhost,IP:127.0.0.1";

  private final Path folder;

  /** Makes one of a server on this machine. */
  public Tls() {
    this(HERE);
  }

  /** Makes one of a server with these names. */
  public Tls(String names) {
    this(names, "cert.pem");
  }

  private Tls(String names, String certificate) {
    try {
      folder = Files.createTempDirectory("throttle-tls-");
    } catch (IOException e) {
      throw new IllegalStateException(e);
    }
    openssl("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key.pem -out " + certificate + " -days 2 -subj /CN=throttle -addext subjectAltName=" + names);
  }

  /**
   * Makes one of a server on this machine that has expired. Java takes a certificate that it is told to trust for as
   * long as it is told.
   */
  public static Tls expired() {
    Tls tls = new Tls(HERE, "authority.pem");
    tls.openssl("req -new -key key.pem -out request.pem -subj /CN=localhost -addext subjectAltName=" + HERE);
    tls.openssl("x509 -req -in request.pem -CA authority.pem -CAkey key.pem -CAcreateserial -days -1 -copy_extensions copy -out cert.pem");
    return tls;
  }

  private void openssl(String words) {
    try {
      Process openssl = new ProcessBuilder(("openssl " + words).split(" ", -1)).directory(folder.toFile()).redirectErrorStream(true).start();
      String said = new String(openssl.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
      if (openssl.waitFor() != 0) {
        throw new IllegalStateException(said);
      }
    } catch (IOException | InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  /** Returns the certificate's file. */
  public Path certificate() {
    return folder.resolve("cert.pem");
  }

  /** Returns the file of the certificate that has signed this one, if another one has. */
  public Path authority() {
    return folder.resolve("authority.pem");
  }

  private Path key() {
    return folder.resolve("key.pem");
  }

  /** Returns the options of a server that listens with TLS at a port. */
  public List<String> options(int port) {
    String certificate = certificate().toString();
    return List.of(
        "--tls-port", String.valueOf(port), "--tls-cert-file", certificate, "--tls-key-file", key().toString(), "--tls-ca-cert-file", certificate,
        "--tls-auth-clients", "no", "--tls-cluster", "yes");
  }

  /** Has a server show this certificate to whoever connects from now on. */
  public void replace(Server server) {
    server.run("CONFIG", "SET", "tls-cert-file", certificate().toString(), "tls-key-file", key().toString());
  }

  /** Returns a file with the certificates of several. */
  public static Path both(Tls one, Tls other) {
    try {
      String all = Files.readString(one.certificate()) + Files.readString(other.certificate());
      return Files.writeString(one.folder.resolve("both.pem"), all);
    } catch (IOException e) {
      throw new IllegalStateException(e);
    }
  }

  /** Returns a context that trusts the certificates of a file. */
  public static SSLContext trusting(Path certificates) {
    try (InputStream in = Files.newInputStream(certificates)) {
      KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
      store.load(null, null);
      for (var certificate : CertificateFactory.getInstance("X.509").generateCertificates(in)) {
        store.setCertificateEntry("c" + store.size(), certificate);
      }
      TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
      trust.init(store);
      SSLContext context = SSLContext.getInstance("TLS");
      context.init(null, trust.getTrustManagers(), null);
      return context;
    } catch (IOException | GeneralSecurityException e) {
      throw new IllegalStateException(e);
    }
  }

  @Override
  public void close() {
    for (String name : List.of("key.pem", "cert.pem", "both.pem", "authority.pem", "authority.srl", "request.pem", "")) {
      var unused = folder.resolve(name).toFile().delete();
    }
  }
}
