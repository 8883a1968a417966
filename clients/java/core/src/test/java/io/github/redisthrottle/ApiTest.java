package io.github.redisthrottle;

import io.github.redisthrottle.testing.Api;
import java.io.IOException;
import org.junit.jupiter.api.Test;

class ApiTest {
  @Test
  void theInterfaceIsThatOfTheFile() throws IOException {
    Api.check("core");
  }
}
