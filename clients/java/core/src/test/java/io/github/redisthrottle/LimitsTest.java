package io.github.redisthrottle;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class LimitsTest {
  @Test
  void limitsAreReadFromText() {
    assertEquals(
        List.of(
            Limit.rate(5, Duration.ofSeconds(1)).burst(10),
            Limit.fixed(1000, 1, ChronoUnit.MONTHS).zone("Europe/Berlin"),
            Limit.window(3, Duration.ofMinutes(90)).shadow()),
        Limits.parse("RATE 5/s BURST 10; fixed 1000/mo TZ Europe/Berlin NAME monthly\nWINDOW 3/1.5h UNIT \"content bytes\" SHADOW;"));
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "RATE 5/1s BURST 10", "FIXED 1000/1mo TZ Europe/Berlin NAME monthly", "WINDOW 3/90m SPARE 2 SHADOW UNIT \"content bytes\"",
        "FIXED 5/2w OFFSET 14h TAKE 3", "RATE 0/0.25ms NAME \"a \\\"b\\\" \\\\; c\"", "FIXED 5/10m FIRST; RATE 1/1d"
      })
  void limitsAreWrittenAsTheyAreRead(String text) {
    List<Limit> limits = Limits.parse(text);
    assertEquals(text, Limits.format(limits));
    assertEquals(limits.get(0).name(), Limits.parse(Limits.format(limits)).get(0).name());
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "''|at least one",
        "RATTE 5/s|expected RATE, WINDOW or FIXED",
        "RATE|count/period",
        "RATE 5|count/period",
        "RATE 5/7|needs a unit",
        "RATE 5/mo|needs a unit: ms, s, m, h or d",
        "FIXED 5/1.5mo|are whole",
        "RATE -1/s|the count -1",
        "RATE 0/s BURST 5|a count of 0",
        "RATE 2000000000/s|10^9 units per second",
        "RATE 1/365d BURST 300|292 years",
        "RATE 5/s BURST|needs a value",
        "RATE 5/s BURST 1 BURST 2|twice",
        "RATE 5/s 10/m|a semicolon before the next limit",
        "FIXED 5/d TZ Nowhere/Atall|has no zone",
        "FIXED 5/h TZ Europe/Berlin|whole days",
        "FIXED 5/d OFFSET 24h|shorter than the period",
        "FIXED 5/mo FIRST|first goes with periods of one length",
        "RATE 5/s NAME \"a|without an end",
        "RATE 5/s NAME tägl|printable ASCII",
        "RATE 1/s;RATE 1/s;RATE 1/s;RATE 1/s;RATE 1/s;RATE 1/s;RATE 1/s;RATE 1/s;RATE 1/s|at most 8",
      })
  void textThatIsNoLimitIsRefused(String text, String says) {
    IllegalArgumentException error = assertThrows(IllegalArgumentException.class, () -> Limits.parse(text));
    assertTrue(error.getMessage().contains(says), error.getMessage());
  }

  @Test
  void aChangedLimitIsACopy() {
    Limit limit = Limit.rate(5, Duration.ofSeconds(1));
    assertNotEquals(limit, limit.burst(10));
    assertEquals("RATE 5/1s", limit.toString());
    assertEquals("RATE 5/1s BURST 10", limit.burst(10).take(3).spare(1).shadow().policy());
  }
}
