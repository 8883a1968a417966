package io.github.redisthrottle.spring.method;

import io.github.redisthrottle.spring.Facts;

/** The request in which a method is called. */
public interface CurrentRequest {
  /** There is no request. */
  CurrentRequest NONE =
      new CurrentRequest() {
        @Override
        public Facts facts() {
          return Facts.NONE;
        }

        @Override
        public void decided(Decided decided) {}
      };

  /** Returns what expressions know of it. */
  Facts facts();

  /** Tells it a decision, for the fields of its response. */
  void decided(Decided decided);
}
