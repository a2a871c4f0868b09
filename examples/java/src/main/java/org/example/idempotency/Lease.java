package org.example.idempotency;

import com.google.common.util.concurrent.FutureCallback;
import dev.grpcidempotency.v1.ExtendRequest;
import dev.grpcidempotency.v1.ExtendResponse;
import io.grpc.Context;
import io.grpc.Status;
import io.grpc.Status.Code;
import java.time.Duration;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/** Extends a lease at each third of it, until it is stopped or lost (rule 3). */
final class Lease {
  /** Between two tries, as a part of the lease. */
  private static final int PAUSES_IN_LEASE = 30;

  private final Calls calls;
  private final ScheduledExecutorService scheduler;
  private final Context own;
  private final Duration length;
  private final Consumer<ReservationLostException> lost;
  private final Calls.Call<ExtendResponse> call;

  private long end;
  private boolean stopped;
  private boolean superseded;
  private ScheduledFuture<?> next;

  /**
   * Extensions are sent in {@code own}; {@code lost} is called at most once, and not after stop.
   */
  Lease(
      Calls calls,
      ScheduledExecutorService scheduler,
      Context own,
      Held held,
      Duration length,
      Consumer<ReservationLostException> lost) {
    this.calls = calls;
    this.scheduler = scheduler;
    this.own = own;
    this.length = length;
    this.lost = lost;
    this.end = held.leaseEnd();
    ExtendRequest request =
        ExtendRequest.newBuilder()
            .setRecordKey(held.key())
            .setReservationToken(held.token())
            .setLease(Times.proto(length))
            .build();
    this.call = service -> service.extend(request);
  }

  synchronized void start() {
    extendAfter(remaining().dividedBy(3));
  }

  /** Ends the extensions, and returns whether another attempt may have a reply. */
  synchronized boolean stop() {
    stopped = true;
    if (next != null) {
      next.cancel(false);
    }
    return superseded;
  }

  private Duration remaining() {
    return Duration.ofNanos(Math.max(end - System.nanoTime(), 0));
  }

  private void extendAfter(Duration pause) {
    long nanos = Times.min(pause, remaining()).toNanos();
    next = scheduler.schedule(this::extend, nanos, TimeUnit.NANOSECONDS);
  }

  private void extend() {
    long sent = System.nanoTime();
    Duration limit;
    synchronized (this) {
      if (stopped) {
        return;
      }
      limit = Times.max(remaining(), Duration.ofNanos(1));
    }
    calls.send(
        own,
        limit,
        call,
        new FutureCallback<>() {
          @Override
          public void onSuccess(ExtendResponse extended) {
            extended(sent, Times.of(extended.getLeaseRemaining()));
          }

          @Override
          public void onFailure(Throwable failure) {
            notExtended(failure);
          }
        });
  }

  private synchronized void extended(long sent, Duration remaining) {
    if (!stopped) {
      end = sent + remaining.toNanos();
      extendAfter(remaining.dividedBy(3));
    }
  }

  private void notExtended(Throwable failure) {
    String message;
    synchronized (this) {
      if (stopped) {
        return;
      }
      if (Status.fromThrowable(failure).getCode() == Code.FAILED_PRECONDITION) {
        String cause = new Calls.Failure(failure, false, Duration.ZERO).lostBecause();
        superseded = !cause.equals("OUTCOME_UNKNOWN") && !cause.equals("RECORD_EXPIRED");
        message = "the reservation is lost";
      } else if (remaining().isZero()) {
        message = "the lease is over";
      } else {
        extendAfter(length.dividedBy(PAUSES_IN_LEASE));
        return;
      }
    }
    lost.accept(new ReservationLostException(message, failure));
  }
}
