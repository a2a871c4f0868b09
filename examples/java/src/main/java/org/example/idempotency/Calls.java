package org.example.idempotency;

import com.google.common.util.concurrent.FutureCallback;
import com.google.common.util.concurrent.Futures;
import com.google.common.util.concurrent.ListenableFuture;
import com.google.common.util.concurrent.MoreExecutors;
import com.google.rpc.ErrorInfo;
import dev.grpcidempotency.v1.IdempotencyServiceGrpc;
import dev.grpcidempotency.v1.IdempotencyServiceGrpc.IdempotencyServiceFutureStub;
import io.grpc.Context;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.Status.Code;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;

/** The calls of the service. They hold no thread while they wait. */
final class Calls {
  /** Of one try, above the wait of Reserve. */
  static final Duration TRY_LIMIT = Duration.ofSeconds(5);

  private static final Duration FIRST_PAUSE = Duration.ofMillis(100);
  private static final Duration MAX_PAUSE = Duration.ofSeconds(5);

  private final ManagedChannel channel;
  private final IdempotencyServiceFutureStub service;
  private final ScheduledExecutorService scheduler;
  private volatile boolean unavailable;

  Calls(ManagedChannel channel, ScheduledExecutorService scheduler) {
    this.channel = channel;
    this.service = IdempotencyServiceGrpc.newFutureStub(channel);
    this.scheduler = scheduler;
  }

  /** A method of the service with its request. */
  interface Call<A> extends Function<IdempotencyServiceFutureStub, ListenableFuture<A>> {}

  /** The failure of the last try of a call. */
  static final class Failure extends Exception {
    private static final long serialVersionUID = 1;

    /** A try may have been done, whatever the last one got. */
    final boolean open;

    /** The delay that the service requests; zero without one, negative if it forbids retries. */
    final Duration delay;

    Failure(Throwable cause, boolean open, Duration delay) {
      super(cause);
      this.open = open;
      this.delay = delay;
    }

    Status status() {
      return Status.fromThrowable(getCause());
    }

    Metadata trailers() {
      Metadata trailers = Status.trailersFromThrowable(getCause());
      return trailers == null ? new Metadata() : trailers;
    }

    /** The cause in the metadata of a RESERVATION_LOST; empty in another failure. */
    String lostBecause() {
      return errorInfo(trailers()).getMetadataOrDefault("cause", "");
    }
  }

  /** The ErrorInfo in the details of an error; an empty one without it. */
  static ErrorInfo errorInfo(Metadata trailers) {
    return Replies.details(trailers).stream()
        .filter(detail -> detail.is(ErrorInfo.class))
        .findFirst()
        .map(Replies::errorInfo)
        .orElse(ErrorInfo.getDefaultInstance());
  }

  /** Sends one message once; {@code context} decides which end of a call ends this one. */
  <A> void send(Context context, Duration limit, Call<A> call, FutureCallback<A> callback) {
    if (unavailable) {
      channel.resetConnectBackoff(); // gRPC's pause may be longer than that of its caller
    }
    FutureCallback<A> noted =
        new FutureCallback<>() {
          @Override
          public void onSuccess(A answer) {
            unavailable = false;
            callback.onSuccess(answer);
          }

          @Override
          public void onFailure(Throwable failure) {
            unavailable = Status.fromThrowable(failure).getCode() == Code.UNAVAILABLE;
            callback.onFailure(failure);
          }
        };
    long nanos = Times.min(limit, TRY_LIMIT).toNanos();
    context.run(
        () -> {
          ListenableFuture<A> answer;
          try {
            answer = call.apply(service.withDeadlineAfter(nanos, TimeUnit.NANOSECONDS));
          } catch (RuntimeException e) { // of an interceptor of the channel
            answer = Futures.immediateFailedFuture(e);
          }
          Futures.addCallback(answer, noted, MoreExecutors.directExecutor());
        });
  }

  /**
   * Sends the same message again while its outcome is open, until the limit or the end of the
   * context. The result fails with a {@link Failure}.
   */
  <A> CompletableFuture<A> repeat(Context context, Duration limit, Call<A> call) {
    Repetition<A> repetition = new Repetition<>(context, limit, call);
    repetition.start();
    return repetition.result;
  }

  private final class Repetition<A> implements FutureCallback<A> {
    private final CompletableFuture<A> result = new CompletableFuture<>();
    private final Context context;
    private final Call<A> call;
    private final long end;
    private Duration pause = FIRST_PAUSE;
    private boolean open;
    private volatile Failure last;
    private volatile ScheduledFuture<?> pausing;

    private Repetition(Context context, Duration limit, Call<A> call) {
      this.context = context;
      this.call = call;
      this.end = System.nanoTime() + limit.toNanos();
    }

    private void start() {
      Context.CancellationListener listener = cancelled -> endPause();
      context.addListener(listener, MoreExecutors.directExecutor());
      result.whenComplete((answer, failure) -> context.removeListener(listener));
      tryOnce();
    }

    private void tryOnce() {
      send(context, remaining(), call, this);
    }

    private Duration remaining() {
      return Duration.ofNanos(Math.max(end - System.nanoTime(), 1));
    }

    @Override
    public void onSuccess(A answer) {
      result.complete(answer);
    }

    @Override
    public void onFailure(Throwable failure) {
      Code code = Status.fromThrowable(failure).getCode();
      open = open || isOpen(code);
      Duration delay = pushback(failure);
      last = new Failure(failure, open, delay);
      pause = Times.max(pause, delay);
      if (delay.isNegative()
          || !(isOpen(code) || code == Code.RESOURCE_EXHAUSTED)
          || context.isCancelled()
          || remaining().compareTo(pause) < 0) {
        result.completeExceptionally(last);
        return;
      }
      try {
        pausing = scheduler.schedule(this::tryOnce, pause.toNanos(), TimeUnit.NANOSECONDS);
      } catch (RejectedExecutionException e) { // the guard is closed
        result.completeExceptionally(last);
      }
      pause = Times.min(pause.multipliedBy(2), MAX_PAUSE);
    }

    private void endPause() {
      ScheduledFuture<?> waiting = pausing;
      if (waiting != null && waiting.cancel(false)) {
        result.completeExceptionally(last);
      }
    }
  }

  private static boolean isOpen(Code code) {
    return code == Code.UNAVAILABLE || code == Code.DEADLINE_EXCEEDED || code == Code.CANCELLED;
  }

  private static Duration pushback(Throwable failure) {
    Metadata trailers = Status.trailersFromThrowable(failure);
    String value = trailers == null ? null : trailers.get(Refusal.PUSHBACK);
    if (value == null) {
      return Duration.ZERO;
    }
    try {
      return Duration.ofMillis(Integer.parseInt(value));
    } catch (NumberFormatException e) {
      return Refusal.NO_RETRIES;
    }
  }
}
