package io.github.redisthrottle.spring.sliced;

import static org.springframework.test.web.servlet.request.MockMvcRequestBuilders.get;
import static org.springframework.test.web.servlet.result.MockMvcResultMatchers.status;

import io.github.redisthrottle.FakeLimiter;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.test.autoconfigure.web.servlet.WebMvcTest;
import org.springframework.test.web.servlet.MockMvc;

/** The example of docs/testing.md, word for word. */
@WebMvcTest(ReportPages.class)
class ReportPagesTest {
  @Autowired MockMvc mvc;
  @Autowired FakeLimiter fake;

  @Test
  void theThirdRequestOfAnHourIsDenied() throws Exception {
    for (int expected : List.of(200, 200, 429)) {
      mvc.perform(get("/report")).andExpect(status().is(expected));
    }
    fake.advance(Duration.ofHours(1));
    mvc.perform(get("/report")).andExpect(status().isOk());
  }

  @Test
  void anOutageLetsRequestsThrough() throws Exception {
    fake.fail();
    for (int i = 0; i < 3; i++) {
      mvc.perform(get("/report")).andExpect(status().isOk());
    }
  }
}
