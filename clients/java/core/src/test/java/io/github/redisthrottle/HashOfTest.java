package io.github.redisthrottle;

import io.github.redisthrottle.connection.Command;
import io.github.redisthrottle.connection.Connection;
import io.github.redisthrottle.connection.ErrorReply;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.Supplier;

/** A server that has one hash, which is null while it cannot be read. */
final class HashOfTest implements Connection {
  static final String KEY = "throttle:policies";
  final List<String> asked = new CopyOnWriteArrayList<>();
  private final Supplier<Map<String, String>> hash;

  HashOfTest(Supplier<Map<String, String>> hash) {
    this.hash = hash;
  }

  @Override
  public CompletionStage<Object> send(Command command) {
    asked.add(String.join(" ", command.words()));
    Map<String, String> now = hash.get();
    if (now == null) {
      return CompletableFuture.completedFuture(new ErrorReply("LOADING it reads its file"));
    }
    if (command.words().get(0).equals("HGET")) {
      return CompletableFuture.completedFuture(now.get(command.words().get(2)));
    }
    List<Object> pairs = new ArrayList<>();
    now.forEach((field, value) -> pairs.addAll(List.of(field, value)));
    return CompletableFuture.completedFuture(pairs);
  }

  @Override
  public CompletionStage<Object> sendWaiting(Command command, CompletionStage<Void> left) {
    throw new UnsupportedOperationException();
  }

  @Override
  public CompletionStage<Object> sendAtomically(List<Command> commands) {
    throw new UnsupportedOperationException();
  }

  @Override
  public void close() {}
}
