package io.github.redisthrottle.lettuce;

import io.github.redisthrottle.connection.ErrorReply;
import io.github.redisthrottle.connection.Handover;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.CommandOutput;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** A reply of any form: an integer, a text, an error, or lists of them. */
final class ReplyOutput extends CommandOutput<String, String, Object> {
  private record Open(List<Object> list, int size) {}

  private final Deque<Open> open = new ArrayDeque<>();
  private final Runnable heard;
  private boolean marked;

  /** {@code heard} is run when the reply begins. */
  ReplyOutput(Runnable heard) {
    super(StringCodec.UTF8, null);
    this.heard = heard;
  }

  @Override
  public void set(ByteBuffer bytes) {
    add(bytes == null ? null : codec.decodeValue(bytes));
  }

  @Override
  public void set(long integer) {
    add(integer);
  }

  @Override
  public void set(double number) {
    add(number);
  }

  @Override
  public void set(boolean truth) {
    add(truth);
  }

  @Override
  public void setSingle(ByteBuffer bytes) {
    set(bytes);
  }

  @Override
  public void setBigNumber(ByteBuffer bytes) {
    set(bytes);
  }

  @Override
  public void setError(ByteBuffer error) {
    add(new ErrorReply(decodeString(error)));
  }

  @Override
  public void multi(int count) {
    if (count < 0) {
      add(null);
      return;
    }
    open.push(new Open(new ArrayList<>(), count));
    close();
  }

  private void add(@Nullable Object value) {
    if (!marked) { // decoders call this
      marked = true;
      heard.run();
      Handover.readsHere();
    }
    if (open.isEmpty()) {
      output = value;
      return;
    }
    open.peek().list().add(value);
    close();
  }

  /** Closes the lists that are complete. */
  private void close() {
    while (!open.isEmpty() && open.peek().list().size() >= open.peek().size()) {
      List<Object> done = open.pop().list();
      if (open.isEmpty()) {
        output = done;
      } else {
        open.peek().list().add(done);
      }
    }
  }
}
