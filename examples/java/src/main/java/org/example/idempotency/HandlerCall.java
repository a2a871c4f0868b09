package org.example.idempotency;

import com.google.protobuf.ByteString;
import dev.grpcidempotency.v1.Reply;
import io.grpc.Attributes;
import io.grpc.Context;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.SecurityLevel;
import io.grpc.ServerCall;
import io.grpc.Status;
import java.io.IOException;
import java.io.InputStream;
import java.util.function.Consumer;

/** The call that a handler sees: it holds back what the handler sends until that is recorded. */
final class HandlerCall<Q, R> extends ServerCall<Q, R> {
  /**
   * What a handler did with its call.
   *
   * @param reply null if the handler had a problem
   * @param problem for which the outcome is unknown, or null
   */
  record Result(Reply reply, Metadata trailers, Throwable problem) {
    static Result unknown(Throwable problem) {
      return new Result(null, new Metadata(), problem);
    }
  }

  private final ServerCall<Q, R> call;
  private final Context work;
  private final Consumer<Result> closed;

  private final Metadata headers = new Metadata();
  private ByteString body;
  private Throwable problem;
  private boolean isClosed;

  /** {@code closed} is called once, in the thread in which the handler closes its call. */
  HandlerCall(ServerCall<Q, R> call, Context work, Consumer<Result> closed) {
    this.call = call;
    this.work = work;
    this.closed = closed;
  }

  @Override
  public void request(int messages) {} // the guard has read the request

  @Override
  public synchronized void sendHeaders(Metadata sent) {
    checkOpen();
    headers.merge(sent);
  }

  @Override
  public synchronized void sendMessage(R message) {
    checkOpen();
    if (body != null) {
      problem = new IllegalStateException("the handler answered twice");
      return;
    }
    try (InputStream stream = call.getMethodDescriptor().streamResponse(message)) {
      body = ByteString.readFrom(stream);
    } catch (IOException e) {
      problem = e;
    }
  }

  @Override
  public void close(Status status, Metadata trailers) {
    Result result;
    synchronized (this) {
      checkOpen();
      isClosed = true;
      result = result(status, trailers);
    }
    closed.accept(result);
  }

  private Result result(Status status, Metadata trailers) {
    if (problem == null && status.isOk() && body == null) {
      problem = new IllegalStateException("the handler closed its call without a response");
    }
    if (problem != null) {
      return Result.unknown(problem);
    }
    return new Result(Replies.of(headers, body, status, trailers), trailers, null);
  }

  private void checkOpen() {
    if (isClosed) {
      throw new IllegalStateException("the handler has closed its call");
    }
  }

  /** A client that leaves does not cancel the work. */
  @Override
  public boolean isCancelled() {
    return work.isCancelled();
  }

  @Override
  public synchronized boolean isReady() {
    return !isClosed;
  }

  @Override
  public MethodDescriptor<Q, R> getMethodDescriptor() {
    return call.getMethodDescriptor();
  }

  @Override
  public Attributes getAttributes() {
    return call.getAttributes();
  }

  @Override
  public String getAuthority() {
    return call.getAuthority();
  }

  @Override
  public SecurityLevel getSecurityLevel() {
    return call.getSecurityLevel();
  }
}
