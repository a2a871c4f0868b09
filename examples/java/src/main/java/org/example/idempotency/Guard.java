package org.example.idempotency;

import com.google.protobuf.Message;
import dev.grpcidempotency.v1.GetRequest;
import dev.grpcidempotency.v1.LeaseExpiry;
import dev.grpcidempotency.v1.Record;
import dev.grpcidempotency.v1.RecordKey;
import dev.grpcidempotency.v1.ReleaseOutcome;
import dev.grpcidempotency.v1.ReleaseRequest;
import dev.grpcidempotency.v1.ReleaseResponse;
import dev.grpcidempotency.v1.ReserveRequest;
import dev.grpcidempotency.v1.ReserveResponse;
import dev.grpcidempotency.v1.Reserved;
import io.grpc.Context;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor.MethodType;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.Status;
import io.grpc.Status.Code;
import io.grpc.StatusRuntimeException;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Guards the unary methods of a gRPC server with the plain calls of idempotencyd: an operation runs
 * once for each key, and its retries get the recorded reply.
 *
 * <p>It is an example of docs/other_languages.md, whose rules the comments of this package name. An
 * outcome that is not known is never run again: each record has LEASE_EXPIRY_REQUIRE_RECOVERY.
 *
 * <p>Install it with {@code ServerInterceptors.intercept(service, guard)}: next to the handler,
 * inside of all interceptors of the server. Its responses have the recorded bytes and not the Java
 * type of the method. It waits for the service in the thread of the call: use no directExecutor.
 */
public final class Guard implements ServerInterceptor, AutoCloseable {
  private static final System.Logger LOGGER = System.getLogger(Guard.class.getName());

  private static final Duration NO_VERDICT_DELAY = Duration.ofSeconds(1);
  private static final int MAX_GIVE_BACKS = 64;

  final Config config;
  final Calls calls;
  final ScheduledThreadPoolExecutor scheduler; // the one thread of the guard

  private final Semaphore giveBacks = new Semaphore(MAX_GIVE_BACKS);
  private int running;

  public Guard(Config config) {
    this.config = config;
    this.scheduler =
        new ScheduledThreadPoolExecutor(
            1,
            task -> {
              Thread thread = new Thread(task, "idempotency-guard");
              thread.setDaemon(true);
              return thread;
            });
    scheduler.setRemoveOnCancelPolicy(true);
    this.calls = new Calls(config.channel(), scheduler);
  }

  synchronized void began() {
    running++;
  }

  synchronized void ended() {
    running--;
    notifyAll();
  }

  /**
   * Waits until all work is settled, also that of callers who left and in the background; false if
   * the limit ended before. Call it after {@code Server.awaitTermination}.
   */
  public synchronized boolean awaitSettled(Duration limit) throws InterruptedException {
    long end = System.nanoTime() + limit.toNanos();
    while (running > 0) {
      long millis = Duration.ofNanos(end - System.nanoTime()).toMillis();
      if (millis <= 0) {
        return false;
      }
      wait(millis);
    }
    return true;
  }

  /** Ends the guard's thread. Call it after {@link #awaitSettled}. */
  @Override
  public void close() {
    scheduler.shutdownNow();
  }

  @Override
  public <Q, R> ServerCall.Listener<Q> interceptCall(
      ServerCall<Q, R> call, Metadata headers, ServerCallHandler<Q, R> handler) {
    String operation = Config.operation(call.getMethodDescriptor());
    if (call.getMethodDescriptor().getType() != MethodType.UNARY
        || config.unguarded().contains(operation)) {
      return handler.startCall(call, headers);
    }
    call.request(2); // a second message is an error of the caller
    return new GuardedListener<>(call, headers, handler);
  }

  /** Reads the request, and decides at its end whether the handler runs. */
  private final class GuardedListener<Q, R> extends ServerCall.Listener<Q> {
    private final ServerCall<Q, R> call;
    private final Metadata headers;
    private final ServerCallHandler<Q, R> handler;
    private Q request;
    private boolean malformed;
    private ServerCall.Listener<Q> listener; // of the handler, once it has run

    private GuardedListener(
        ServerCall<Q, R> call, Metadata headers, ServerCallHandler<Q, R> handler) {
      this.call = call;
      this.headers = headers;
      this.handler = handler;
    }

    @Override
    public void onMessage(Q message) {
      malformed = request != null;
      request = message;
    }

    @Override
    public void onHalfClose() {
      began();
      try {
        if (request == null || malformed) {
          throw Status.INTERNAL.withDescription("not one request").asRuntimeException();
        }
        listener = decide(call, headers, request, handler);
      } catch (StatusRuntimeException refusal) {
        Replies.refuse(call, refusal);
      } finally {
        ended(); // an attempt counts by itself
      }
    }

    /** Of an answered call. The leaving of a caller is no event for the handler: it continues. */
    @Override
    public void onComplete() {
      if (listener != null) {
        listener.onComplete();
      }
    }
  }

  private <Q, R> ServerCall.Listener<Q> decide(
      ServerCall<Q, R> call, Metadata headers, Q request, ServerCallHandler<Q, R> handler) {
    Context caller = Context.current();
    ReserveRequest reserve = reservation(call, headers, request);
    AtomicLong sent = new AtomicLong(); // the try that was answered
    ReserveResponse response = reserve(caller, reserve, sent);
    String record = response.getRecordId();
    switch (response.getVerdictCase()) {
      case RESERVED -> {
        return execute(
            call, headers, request, handler, held(reserve, response, sent.get()), response);
      }
      case REPLAY -> Replies.replay(call, record, response.getReplay());
      case IN_FLIGHT ->
          throw new Refusal(Code.ABORTED, "IN_FLIGHT", "another attempt runs")
              .withDelay(
                  Times.max(Times.of(response.getInFlight().getRetryAfter()), Duration.ofMillis(1)))
              .error(record);
      case MISMATCH ->
          throw new Refusal(
                  Code.FAILED_PRECONDITION, "KEY_REUSED", "the key belongs to another request")
              .error(record);
      case OUTCOME_UNKNOWN ->
          throw Refusal.outcomeUnknown(response.getOutcomeUnknown()).error(record);
      case EXPIRED ->
          throw new Refusal(Code.FAILED_PRECONDITION, "KEY_EXPIRED", "the key is too old")
              .error(record);
      default ->
          throw new Refusal(Code.UNAVAILABLE, "STORE_UNAVAILABLE", "a verdict of a newer service")
              .withDelay(NO_VERDICT_DELAY)
              .error(record);
    }
    return null;
  }

  private <Q> ReserveRequest reservation(ServerCall<Q, ?> call, Metadata headers, Q request) {
    String operation = Config.operation(call.getMethodDescriptor());
    ReserveRequest.Builder reserve = ReserveRequest.newBuilder();
    reserve.setRecordKey(
        RecordKey.newBuilder()
            .setNamespace(config.namespace())
            .setOperation(operation)
            .setKey(Keys.of(headers))
            .setScope(config.scope().of(call, headers)));
    if (!(request instanceof Message message)) {
      throw Status.INTERNAL
          .withDescription("the request of " + operation + " is no message with descriptors")
          .asRuntimeException();
    }
    try {
      reserve.addFingerprints(Fingerprints.of(operation, message));
    } catch (IllegalArgumentException e) {
      throw Status.INTERNAL
          .withDescription("the request has no fingerprint: " + e.getMessage())
          .asRuntimeException();
    }
    return reserve
        .setRequestToken(UUID.randomUUID().toString()) // for this call alone: not from the key
        .setLease(Times.proto(config.lease()))
        .setMaxWait(Times.proto(config.maxWait()))
        .setOnLeaseExpiry(LeaseExpiry.LEASE_EXPIRY_REQUIRE_RECOVERY)
        .build();
  }

  private static Held held(ReserveRequest request, ReserveResponse response, long sent) {
    Reserved reserved = response.getReserved();
    return new Held(
        request.getRecordKey(),
        reserved.getReservationToken(),
        response.getRecordId(),
        sent + Times.of(reserved.getLeaseRemaining()).toNanos());
  }

  /**
   * Returns the verdict (rule 1). It ends with the caller's call. What an unanswered try may have
   * been granted is given back.
   */
  private ReserveResponse reserve(Context caller, ReserveRequest request, AtomicLong sent) {
    Calls.Call<ReserveResponse> call =
        service -> {
          sent.set(System.nanoTime());
          return service.reserve(request);
        };
    try {
      return calls.repeat(caller, config.reserveFor(), call).join();
    } catch (CompletionException e) {
      Calls.Failure failure = (Calls.Failure) e.getCause();
      if (failure.open) {
        giveBack(caller.fork(), request);
      }
      throw noVerdict(failure);
    }
  }

  private static StatusRuntimeException noVerdict(Calls.Failure failure) {
    Status status = failure.status();
    switch (status.getCode()) {
      case INVALID_ARGUMENT, FAILED_PRECONDITION, DATA_LOSS -> {
        return status.asRuntimeException(Replies.detailsOnly(failure.trailers()));
      }
      default -> {
        // Its text may have addresses and names of identities.
        LOGGER.log(Level.ERROR, "no verdict", failure);
        boolean stated = failure.delay.compareTo(Duration.ZERO) > 0;
        return new Refusal(
                Code.UNAVAILABLE, "STORE_UNAVAILABLE", "no verdict of the idempotency service")
            .withDelay(stated ? failure.delay : NO_VERDICT_DELAY)
            .error("");
      }
    }
  }

  /**
   * Releases, in the background, a grant whose answer was lost: its lease would end as an unknown
   * outcome although nothing ran.
   */
  private void giveBack(Context own, ReserveRequest request) {
    if (!giveBacks.tryAcquire()) {
      return; // too many: the lease ends by itself
    }
    began();
    long end = System.nanoTime() + config.lease().toNanos();
    CompletableFuture<ReserveResponse> verdict =
        calls.repeat(own, config.lease(), service -> service.reserve(request));
    verdict
        .thenCompose(
            response ->
                response.hasReserved()
                    ? release(own, request, response, end)
                    : CompletableFuture.completedFuture(null))
        .whenComplete(
            (released, failure) -> {
              if (failure != null) {
                LOGGER.log(Level.WARNING, "a reservation was not given back", failure);
              }
              giveBacks.release();
              ended();
            });
  }

  private CompletableFuture<ReleaseResponse> release(
      Context own, ReserveRequest request, ReserveResponse response, long end) {
    boolean mayHaveRun = Grants.mayHaveRun(response.getReserved());
    ReleaseRequest release =
        ReleaseRequest.newBuilder()
            .setRecordKey(request.getRecordKey())
            .setReservationToken(response.getReserved().getReservationToken())
            .setOutcome(
                mayHaveRun
                    ? ReleaseOutcome.RELEASE_OUTCOME_OUTCOME_UNKNOWN
                    : ReleaseOutcome.RELEASE_OUTCOME_NOTHING_HAPPENED)
            .setReason(mayHaveRun ? Grants.REASON : "its caller gave up")
            .build();
    Duration rest = Duration.ofNanos(Math.max(end - System.nanoTime(), 1));
    return calls.repeat(own, rest, service -> service.release(release));
  }

  private <Q, R> ServerCall.Listener<Q> execute(
      ServerCall<Q, R> call,
      Metadata headers,
      Q request,
      ServerCallHandler<Q, R> handler,
      Held held,
      ReserveResponse response) {
    Context caller = Context.current();
    Reserved reserved = response.getReserved();
    began();
    Attempt<Q, R> attempt = new Attempt<>(this, call, held, caller);
    if (caller.isCancelled()) {
      attempt.giveBack(Status.CANCELLED.withDescription("its caller gave up").asRuntimeException());
    } else if (Grants.mayHaveRun(reserved)) {
      attempt.leave(Grants.refusal(reserved).error(held.record()));
    } else if (reserved.getAttempt() == 1) {
      return begin(attempt, held, request, headers, handler);
    } else {
      Record record;
      try {
        record = get(caller, held.key());
      } catch (CompletionException e) {
        attempt.giveBack(noVerdict((Calls.Failure) e.getCause()));
        return null;
      }
      if (!Grants.mayHaveRun(record)) {
        return begin(attempt, held, request, headers, handler);
      }
      attempt.leave(Grants.refusal(reserved).error(held.record()));
    }
    return null;
  }

  private Record get(Context caller, RecordKey key) {
    GetRequest request = GetRequest.newBuilder().setRecordKey(key).build();
    return calls
        .repeat(caller, config.reserveFor(), service -> service.get(request))
        .join()
        .getRecord();
  }

  private static <Q, R> ServerCall.Listener<Q> begin(
      Attempt<Q, R> attempt,
      Held held,
      Q request,
      Metadata headers,
      ServerCallHandler<Q, R> handler) {
    if (System.nanoTime() - held.leaseEnd() >= 0) { // the process was stopped
      attempt.giveBack(Attempt.lost(held.record()));
      return null;
    }
    return attempt.run(request, headers, handler);
  }
}
