package io.github.redisthrottle.spring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Set;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.expression.spel.support.StandardEvaluationContext;

/** Keys of requests of which something is not known. */
class ExpressionsTest {
  /** A request with the field X-Key, without X-Org, and of nobody who has signed in. */
  private static final Facts FACTS =
      new Facts() {
        @Override
        public String getAddress() {
          return "192.0.2.1";
        }

        @Override
        public String header(String name) {
          return name.equals("X-Key") ? "Secret" : null;
        }
      };

  private static String key(String expression) {
    return Expressions.key(Expressions.parseKey(expression, Set.of()), new StandardEvaluationContext(FACTS));
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '`',
      value = {
        "'{' + header('X-Key') + '}' | {Secret}",
        "'' + 7 + 1 | 71",
        "header('X-Org') ?: address | 192.0.2.1",
        "'org:' + (header('X-Org') ?: 'none') | org:none",
        "header('X-Org') == null ? 'at:' + address : 'of:' + header('X-Org') | at:192.0.2.1",
        "header('X-Org') == null ? null ?: 'a' : 'b' | a",
        "('of:' + header('X-Key')).toLowerCase() | of:secret",
        "T(String).join(':', header('X-Key'), address) | Secret:192.0.2.1",
        "T(java.lang.String).join(':', {header('X-Key'), address}).toLowerCase() | secret:192.0.2.1",
        "T(String).join(':', address, header('X-Org') ?: 'none') | 192.0.2.1:none",
        "T(String).format('%s-%s', header('X-Key'), address) | Secret-192.0.2.1",
        "'%s-%s'.formatted(header('X-Key'), address) | Secret-192.0.2.1",
      })
  void aKeyIsJoinedOfWhatIsKnown(String expression, String text) {
    assertEquals(text, key(expression));
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "'{' + header('X-Org') + '}'",
        "header('X-Org') + ':' + address",
        "query('tenant') + header('X-Org')",
        "address + principal",
        "header('X-Org') == null ? 'of:' + header('X-Org') : address",
        "header('X-Org') ?: 'of:' + principal",
        "('of:' + principal).toUpperCase()",
        "'of:' + null",
        "T(String).join(':', header('X-Org'), address)",
        "T(String).join(':', {header('X-Org'), address})",
        "T(java.lang.String).join(':', address, 'of:' + header('X-Org'))",
        "'at:' + T(String).join(':', address, principal)",
        "header('X-Org') ?: T(String).join(':', address, principal)",
        "T(String).format('%s-%s', header('X-Org'), address)",
        "T(String).valueOf(header('X-Org'))",
        "'%s-%s'.formatted(header('X-Org'), address)",
        "header('X-Org')",
        "query('tenant') ?: ''",
        "{header('X-Org'), address}",
        "{'org': header('X-Org')}",
      })
  void whatIsNotKnownIsAMistakeAndNotTheTextNull(String expression) {
    String mistake = assertThrows(IllegalArgumentException.class, () -> key(expression)).getMessage();
    assertTrue(mistake.startsWith("key: "), mistake);
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "header('X-' + path)",
        "address.concat('a' + principal)",
        "header(T(String).join('-', 'X', path))",
        "T(String).join(':', address, principal) == 'a' ? 'a' : 'b'",
        "'a' + principal == 'anull' ? 'a' : 'b'",
        "{'a' + principal}[0]",
        "{1}.!['a' + #this][0]",
      })
  void textsAreJoinedOnlyWhereNullIsSeen(String expression) {
    String refused = assertThrows(IllegalArgumentException.class, () -> Expressions.parseKey(expression, Set.of())).getMessage();
    assertTrue(refused.contains("join texts outside of these"), refused);
  }
}
