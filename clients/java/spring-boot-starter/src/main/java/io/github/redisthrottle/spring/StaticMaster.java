package io.github.redisthrottle.spring;

import io.github.redisthrottle.MistakeException;
import io.github.redisthrottle.OutageException;
import io.github.redisthrottle.OverloadException;
import io.github.redisthrottle.Stages;
import io.github.redisthrottle.connection.Command;
import io.github.redisthrottle.connection.Connection;
import io.github.redisthrottle.connection.ErrorReply;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * Sends calls to that one of several servers which says it is the master. It is looked for at the first call, and anew
 * after it did not answer or said that it is the master no more.
 */
final class StaticMaster implements Connection {
  private static final Command ROLE = new Command(List.of("ROLE"), null);

  private final List<Connection> servers;
  private final AtomicReference<@Nullable CompletableFuture<Connection>> master = new AtomicReference<>();

  StaticMaster(List<Connection> servers) {
    this.servers = servers;
  }

  @Override
  public CompletionStage<Object> send(Command command) {
    return viaMaster(connection -> connection.send(command));
  }

  @Override
  public CompletionStage<Object> sendWaiting(Command command, CompletionStage<Void> left) {
    return viaMaster(connection -> connection.sendWaiting(command, left));
  }

  @Override
  public CompletionStage<Object> sendWaiting(Command command, CompletionStage<Void> left, Duration patience) {
    return viaMaster(connection -> connection.sendWaiting(command, left, patience));
  }

  @Override
  public CompletionStage<Object> sendAtomically(List<Command> commands) {
    return viaMaster(connection -> connection.sendAtomically(commands));
  }

  @Override
  public void close() {
    servers.forEach(Connection::close);
  }

  private CompletionStage<Object> viaMaster(Function<Connection, CompletionStage<Object>> call) {
    CompletableFuture<Connection> found = master();
    CompletableFuture<Object> reply = new CompletableFuture<>();
    found.whenComplete(
        (connection, unknown) -> {
          if (unknown != null) {
            master.compareAndSet(found, null);
            reply.completeExceptionally(Answers.unwrapped(unknown));
            return;
          }
          CompletionStage<Object> sent = call.apply(connection);
          reply.whenComplete((value, error) -> sent.toCompletableFuture().cancel(true)); // of one that has left
          Stages.copy(
              sent.whenComplete(
                  (value, failed) -> {
                    if (Answers.unwrapped(failed) instanceof OutageException || (value instanceof ErrorReply told && told.isNoMaster())) {
                      master.compareAndSet(found, null);
                    }
                  }),
              reply);
        });
    return reply;
  }

  private CompletableFuture<Connection> master() {
    CompletableFuture<Connection> next = new CompletableFuture<>();
    CompletableFuture<Connection> now = master.compareAndExchange(null, next);
    if (now != null) {
      return now;
    }
    AtomicReference<@Nullable Throwable> why = new AtomicReference<>();
    CompletableFuture<?>[] asked = servers.stream().map(server -> ask(server, next, why)).toArray(CompletableFuture<?>[]::new);
    CompletableFuture.allOf(asked).whenComplete((all, error) -> next.completeExceptionally(nobody(why.get())));
    return next;
  }

  /** Asks a server whether it is the master. The stage never fails. */
  private static CompletableFuture<Void> ask(Connection server, CompletableFuture<Connection> found, AtomicReference<@Nullable Throwable> why) {
    return server
        .send(ROLE)
        .<Void>handle(
            (role, failed) -> {
              if (failed != null) {
                Throwable error = Answers.unwrapped(failed);
                why.updateAndGet(before -> before == null || (error instanceof OverloadException && !(before instanceof MistakeException)) ? error : before);
              } else if (role instanceof ErrorReply refused) {
                why.set(new MistakeException("ROLE: which server is the master cannot be asked: " + refused.text(), null));
              } else if (role instanceof List<?> words && !words.isEmpty() && "master".equals(words.get(0))) {
                found.complete(server);
              }
              return null;
            })
        .toCompletableFuture();
  }

  private RuntimeException nobody(@Nullable Throwable why) {
    return why instanceof MistakeException || why instanceof OverloadException
        ? (RuntimeException) why
        : new OutageException("none of the " + servers.size() + " servers says that it is the master", why);
  }
}
