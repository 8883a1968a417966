package io.github.redisthrottle.testing;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/** A key of a server on this machine, and its certificate, which nobody has signed but itself. */
public final class Tls implements AutoCloseable {
  private final Path folder;

  public Tls() {
    try {
      folder = Files.createTempDirectory("throttle-tls-");
      Process openssl =
          new ProcessBuilder(
                  ("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=localhost"
                          + " -addext subjectAltName=DNS:localhost,IP:127.0.0.1")
                      .split(" ", -1))
              .directory(folder.toFile())
              .redirectErrorStream(true)
              .start();
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

  /** Returns the options of a server that listens with TLS at a port. */
  List<String> options(int port) {
    String certificate = certificate().toString();
    return List.of(
        "--tls-port", String.valueOf(port), "--tls-cert-file", certificate, "--tls-key-file", folder.resolve("key.pem").toString(), "--tls-ca-cert-file", certificate,
        "--tls-auth-clients", "no", "--tls-cluster", "yes");
  }

  @Override
  public void close() {
    for (String name : List.of("key.pem", "cert.pem", "")) {
      var unused = folder.resolve(name).toFile().delete();
    }
  }
}
