package org.example.idempotency;

import dev.grpcidempotency.v1.CompleteRequest;
import dev.grpcidempotency.v1.CompleteResponse;
import dev.grpcidempotency.v1.ReleaseOutcome;
import dev.grpcidempotency.v1.ReleaseRequest;
import dev.grpcidempotency.v1.ReleaseResponse;
import dev.grpcidempotency.v1.Reply;
import io.grpc.Context;
import io.grpc.Metadata;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.Status;
import io.grpc.Status.Code;
import io.grpc.StatusRuntimeException;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.EnumSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;

/** Runs a handler under a reservation, settles the reservation, and answers then. */
final class Attempt<Q, R> {
  private static final System.Logger LOGGER = System.getLogger(Attempt.class.getName());

  /** Before the retry of a call whose reservation is lost. */
  static final Duration LOST_DELAY = Duration.ofMillis(100);

  /** After another code the effect may have happened (rule 4). */
  private static final Set<Code> OUTCOMES =
      EnumSet.of(
          Code.OK,
          Code.INVALID_ARGUMENT,
          Code.NOT_FOUND,
          Code.ALREADY_EXISTS,
          Code.PERMISSION_DENIED,
          Code.FAILED_PRECONDITION,
          Code.OUT_OF_RANGE);

  private final Guard guard;
  private final ServerCall<Q, R> call;
  private final Held held;
  private final Context own;
  private final Context.CancellableContext work;
  private final Lease lease;
  private final Set<Code> released;

  /** Whether the outcome is decided: by the handler, or without it. */
  private final AtomicBoolean decided = new AtomicBoolean();

  private ScheduledFuture<?> bound;

  /** An answer, which is sent once the reservation is settled. */
  private interface Answer extends Runnable {}

  /** The guard counts the attempt; it ends with {@link Guard#ended}. */
  Attempt(Guard guard, ServerCall<Q, R> call, Held held, Context caller) {
    this.guard = guard;
    this.call = call;
    this.held = held;
    // A context of its own: the end of the caller's call, by its deadline or because the caller
    // hangs up, is the usual reason of a retry, and may neither end the work nor the recording.
    this.own = caller.fork();
    this.work =
        own.withDeadlineAfter(
            guard.config.maxWork().toNanos(), TimeUnit.NANOSECONDS, guard.scheduler);
    this.lease =
        new Lease(guard.calls, guard.scheduler, own, held, guard.config.lease(), work::cancel);
    this.released = guard.config.released().getOrDefault(held.key().getOperation(), Set.of());
  }

  /** Gives the reservation back, since nothing has run. */
  void giveBack(StatusRuntimeException refusal) {
    decided.set(true);
    end(
        released(
            ReleaseOutcome.RELEASE_OUTCOME_NOTHING_HAPPENED, "nothing ran", () -> refuse(refusal)));
  }

  /** Leaves an outcome unknown that an earlier attempt of another guard left behind. */
  void leave(StatusRuntimeException refusal) {
    decided.set(true);
    end(
        released(
            ReleaseOutcome.RELEASE_OUTCOME_OUTCOME_UNKNOWN, Grants.REASON, () -> refuse(refusal)));
  }

  /** Runs the handler in this thread, and returns its listener, or null. */
  ServerCall.Listener<Q> run(Q request, Metadata headers, ServerCallHandler<Q, R> handler) {
    lease.start();
    // A handler that hangs, or never closes its call, does not hold its key for ever.
    bound =
        guard.scheduler.schedule(
            this::abandon,
            guard.config.maxWork().plus(guard.config.lease()).toNanos(),
            TimeUnit.NANOSECONDS);
    HandlerCall<Q, R> handlerCall = new HandlerCall<>(call, work, this::closed);
    Context previous = work.attach();
    try {
      ServerCall.Listener<Q> listener = handler.startCall(handlerCall, headers);
      listener.onReady();
      listener.onMessage(request);
      listener.onHalfClose();
      return listener;
    } catch (Throwable t) { // of an Error, too, the outcome is unknown
      if (decide()) {
        end(unknown(t));
      } else {
        LOGGER.log(Level.ERROR, "a handler failed after its answer, record " + held.record(), t);
      }
      return null;
    } finally {
      work.detach(previous);
    }
  }

  private boolean decide() {
    bound.cancel(false);
    return decided.compareAndSet(false, true);
  }

  private void abandon() {
    if (decide()) {
      work.cancel(null);
      end(unknown(new IllegalStateException("the handler did not close its call in time")));
    }
  }

  private void closed(HandlerCall.Result result) {
    if (decide()) {
      end(settled(result));
    } else {
      late(result);
    }
  }

  private CompletableFuture<Answer> settled(HandlerCall.Result result) {
    Reply reply = result.reply();
    if (result.problem() != null) {
      return unknown(result.problem());
    }
    Status status = Status.fromCodeValue(reply.getCode()).withDescription(reply.getMessage());
    if (isOfAnotherGuard(result)) {
      return unknown(status.asException());
    }
    if (released.contains(status.getCode()) && !isOverReceiveLimit(status)) {
      Metadata marks = new Metadata();
      marks.put(Refusal.RECORD, held.record());
      return released(
          ReleaseOutcome.RELEASE_OUTCOME_NOTHING_HAPPENED,
          status.getCode().name(),
          () -> Replies.answer(call, reply, marks));
    }
    if (!OUTCOMES.contains(status.getCode())) {
      return unknown(status.asException());
    }
    return complete(reply)
        .handle(
            (completed, failure) ->
                failure == null
                    ? () ->
                        Replies.answer(
                            call, reply, Replies.marks(held.record(), completed.getExpiresAt()))
                    : notCompleted(reply, cause(failure)));
  }

  /** A refusal of another guard, by a method that the handler called. */
  private static boolean isOfAnotherGuard(HandlerCall.Result result) {
    return Calls.errorInfo(result.trailers()).getDomain().equals(Refusal.DOMAIN);
  }

  /** An answer that the handler's own client could not read: the effect has happened. */
  private static boolean isOverReceiveLimit(Status status) {
    String message = status.getDescription();
    return status.getCode() == Code.RESOURCE_EXHAUSTED
        && (message.contains("larger than max") || message.contains("exceeds maximum size"));
  }

  private Answer notCompleted(Reply reply, Calls.Failure failure) {
    boolean superseded = lease.stop();
    if (superseded || !failure.lostBecause().equals("RECORD_EXPIRED")) {
      return notSettled(failure);
    }
    // No record can contradict the reply, and a retry of an error would run again.
    Metadata marks = new Metadata();
    marks.put(Refusal.RECORD, held.record());
    if (reply.getCode() != Code.OK.value()) {
      marks.put(Refusal.PUSHBACK, "-1");
    }
    return () -> Replies.answer(call, reply, marks);
  }

  /** The handler may have had an effect (rule 4). */
  private CompletableFuture<Answer> unknown(Throwable cause) {
    LOGGER.log(Level.ERROR, "the outcome of a call is unknown, record " + held.record(), cause);
    return released(
        ReleaseOutcome.RELEASE_OUTCOME_OUTCOME_UNKNOWN,
        Status.fromThrowable(cause).getCode().name(),
        () -> refuse(notRecorded("the outcome is not known")));
  }

  private CompletableFuture<Answer> released(ReleaseOutcome outcome, String reason, Answer answer) {
    ReleaseRequest request =
        ReleaseRequest.newBuilder()
            .setRecordKey(held.key())
            .setReservationToken(held.token())
            .setOutcome(outcome)
            .setReason(reason)
            .build();
    CompletableFuture<ReleaseResponse> release =
        guard.calls.repeat(own, guard.config.settleFor(), service -> service.release(request));
    return release.handle((done, failure) -> failure == null ? answer : notSettled(cause(failure)));
  }

  private CompletableFuture<CompleteResponse> complete(Reply reply) {
    return completeWith(Replies.recorded(reply))
        .exceptionallyCompose(
            failure ->
                cause(failure).status().getCode() == Code.INVALID_ARGUMENT
                    ? completeWith(Replies.statusOnly(reply)) // the effect has happened
                    : CompletableFuture.failedFuture(failure));
  }

  private CompletableFuture<CompleteResponse> completeWith(Reply reply) {
    CompleteRequest request =
        CompleteRequest.newBuilder()
            .setRecordKey(held.key())
            .setReservationToken(held.token())
            .setReply(reply)
            .build();
    return guard.calls.repeat(own, guard.config.settleFor(), service -> service.complete(request));
  }

  /**
   * The refusal of a call whose Complete or Release was refused (rule 5). The code of that error is
   * not the caller's: the operation may have run.
   */
  private Answer notSettled(Calls.Failure failure) {
    LOGGER.log(Level.ERROR, "a reservation was not settled, record " + held.record(), failure);
    if (failure.status().getCode() != Code.FAILED_PRECONDITION) {
      return () -> refuse(notRecorded("the outcome is not recorded"));
    }
    if (failure.lostBecause().equals("RECORD_EXPIRED")) {
      Refusal gone =
          new Refusal(
                  Code.ABORTED, "RESERVATION_LOST", "the record is gone: do not retry, find out")
              .withMetadata(Map.of("cause", "RECORD_EXPIRED"))
              .withDelay(Refusal.NO_RETRIES);
      return () -> refuse(gone.error(held.record()));
    }
    return () -> refuse(lost(held.record()));
  }

  static StatusRuntimeException lost(String record) {
    return new Refusal(
            Code.ABORTED, "RESERVATION_LOST", "the attempt does not hold the record any more")
        .withDelay(LOST_DELAY)
        .error(record);
  }

  private StatusRuntimeException notRecorded(String message) {
    return new Refusal(Code.UNAVAILABLE, "OUTCOME_NOT_RECORDED", message).error(held.record());
  }

  private void refuse(StatusRuntimeException refusal) {
    Replies.refuse(call, refusal);
  }

  private void end(CompletableFuture<Answer> settled) {
    settled.whenComplete(
        (answer, failure) -> {
          try {
            lease.stop();
            if (failure == null) {
              answer.run();
            } else { // a mistake in this package
              LOGGER.log(Level.ERROR, "no answer, record " + held.record(), failure);
              refuse(notRecorded("the outcome is not recorded"));
            }
          } catch (RuntimeException e) { // such as a call that another interceptor has closed
            LOGGER.log(Level.WARNING, "a call was not answered, record " + held.record(), e);
          } finally {
            work.cancel(null);
            guard.ended();
          }
        });
  }

  /**
   * A reply after the outcome was left unknown. Its caller has an answer; its retry gets this
   * reply, unless another attempt was granted.
   */
  private void late(HandlerCall.Result result) {
    boolean recorded =
        result.problem() == null
            && !isOfAnotherGuard(result)
            && OUTCOMES.contains(Status.fromCodeValue(result.reply().getCode()).getCode());
    LOGGER.log(
        Level.WARNING, "a late reply, " + (recorded ? "to record" : "left") + ", " + held.record());
    if (!recorded) {
      return;
    }
    guard.began();
    complete(result.reply())
        .whenComplete(
            (completed, failure) -> {
              if (failure != null) {
                LOGGER.log(Level.ERROR, "a late reply was not recorded", failure);
              }
              guard.ended();
            });
  }

  private static Calls.Failure cause(Throwable failure) {
    return (Calls.Failure) (failure instanceof CompletionException ? failure.getCause() : failure);
  }
}
