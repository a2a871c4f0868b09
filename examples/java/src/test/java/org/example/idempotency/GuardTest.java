package org.example.idempotency;

import static org.example.idempotency.Shop.WITHIN;
import static org.example.idempotency.Shop.answered;
import static org.example.idempotency.Shop.ascii;
import static org.example.idempotency.Shop.binary;
import static org.example.idempotency.Shop.ended;
import static org.example.idempotency.Shop.fingerprint;
import static org.example.idempotency.Shop.order;
import static org.example.idempotency.Shop.received;
import static org.example.idempotency.Shop.recordKey;
import static org.example.idempotency.Shop.refused;
import static org.example.idempotency.Shop.replayed;
import static org.example.idempotency.Shop.succeeded;
import static org.example.idempotency.Shop.values;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Any;
import com.google.protobuf.ByteString;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import dev.grpcidempotency.testing.v1.ResetRequest;
import dev.grpcidempotency.v1.CompleteRequest;
import dev.grpcidempotency.v1.LeaseExpiry;
import dev.grpcidempotency.v1.RecordState;
import dev.grpcidempotency.v1.ReleaseRequest;
import dev.grpcidempotency.v1.Reply;
import dev.grpcidempotency.v1.ReserveRequest;
import io.grpc.Context;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.Status.Code;
import io.grpc.StatusException;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import io.grpc.stub.StreamObserver;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.example.idempotency.Shop.Answer;
import org.example.payments.v1.ChargeReply;
import org.example.payments.v1.ChargeRequest;
import org.example.payments.v1.PaymentsGrpc;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(value = 60, unit = TimeUnit.SECONDS)
final class GuardTest {
  private static CompletableFuture<Answer> later(java.util.function.Supplier<Answer> call) {
    return CompletableFuture.supplyAsync(call, task -> new Thread(task).start());
  }

  private static StatusException failure(Status status) {
    Metadata trailers = new Metadata();
    trailers.put(ascii("shop-trailer"), "c");
    trailers.put(binary("shop-trailer-bin"), new byte[] {0, -1});
    return status.asException(trailers);
  }

  private static StatusRuntimeException detailed(Code code, String reason, String domain) {
    return StatusProto.toStatusRuntimeException(
        com.google.rpc.Status.newBuilder()
            .setCode(code.value())
            .setMessage("declined")
            .addDetails(
                Any.pack(ErrorInfo.newBuilder().setReason(reason).setDomain(domain).build()))
            .build());
  }

  @Test
  void aRetryIsReplayedByteForByte() {
    try (Shop shop = new Shop()) {
      shop.does(
          (request, answer) -> {
            answer.onNext(
                ChargeReply.newBuilder()
                    .setChargeId("charge 1")
                    .putAllNotes(request.getNotesMap())
                    .build());
            answer.onCompleted();
          });
      ChargeRequest.Builder one = order(500).toBuilder();
      ChargeRequest.Builder other = order(500).toBuilder();
      for (int i = 0; i < 20; i++) { // in another order on the wire
        one.putNotes("" + i, "note");
        other.putNotes("" + (19 - i), "note");
      }
      String key =
          new UUID(System.currentTimeMillis() << 16 | 0x7abc, 0x8def_0123_4567_89abL).toString();
      Answer first = shop.call(one.build(), WITHIN, key);
      succeeded(first);
      assertTrue(first.body().length > 0);
      assertEquals(List.of(), first.trailer("idempotency-replayed"));
      replayed(shop.call(one.build(), WITHIN, key), first);
      replayed(shop.call(other.build(), WITHIN, key), first);
      replayed(shop.call(one.build(), WITHIN, key.toUpperCase()), first);
      replayed(shop.call(one.build(), WITHIN, '"' + key + '"'), first);
      shop.ran(1);
    }
  }

  @Test
  void metadataIsReplayed() {
    try (Shop shop = new Shop()) {
      Metadata sent = new Metadata();
      sent.put(ascii("shop-header"), "a");
      sent.put(ascii("shop-header"), "b");
      Metadata trailers = new Metadata();
      trailers.put(ascii("shop-trailer"), "c");
      trailers.put(binary("shop-trailer-bin"), new byte[] {0, -1});
      shop.withMetadata(sent, trailers);
      Answer first = shop.charge("order-1");
      succeeded(first);
      assertEquals(List.of("a", "b"), values(first.headers(), "shop-header"));
      assertEquals(List.of("c"), first.trailer("shop-trailer"));
      assertEquals(1, first.trailer("shop-trailer-bin").size());
      replayed(shop.charge("order-1"), first);
      shop.ran(1);
    }
  }

  @Test
  void metadataThatTheServiceRefusesIsLeftOut() {
    try (Shop shop = new Shop()) {
      Metadata trailers = new Metadata();
      trailers.put(ascii("shop-trailer"), "c\u0007");
      trailers.put(ascii("idempotency-replayed"), "true");
      trailers.put(ascii("grpc-retry-pushback-ms"), "7");
      shop.withMetadata(new Metadata(), trailers);
      Answer first = shop.charge("order-1");
      succeeded(first);
      assertEquals(List.of(), first.trailer("shop-trailer"));
      assertEquals(List.of(), first.trailer("idempotency-replayed"));
      assertEquals(List.of(), first.trailer("grpc-retry-pushback-ms"));
      replayed(shop.charge("order-1"), first);
    }
  }

  @Test
  void aRecordOfAnotherLibraryIsReplayedByteForByte() {
    try (Shop shop = new Shop()) {
      ReserveRequest reserve =
          ReserveRequest.newBuilder()
              .setRecordKey(recordKey("order-1"))
              .addFingerprints(fingerprint())
              .build();
      // Field 9 before field 1, and with several wire types.
      byte[] body = {0x4a, 1, 'x', 0x48, 1, 0x4a, 1, 'y', 0x0a, 1, 'c'};
      shop.service.complete(
          CompleteRequest.newBuilder()
              .setRecordKey(recordKey("order-1"))
              .setReservationToken(
                  shop.service.reserve(reserve).getReserved().getReservationToken())
              .setReply(Reply.newBuilder().setBody(ByteString.copyFrom(body)))
              .build());
      Answer got = shop.charge("order-1");
      succeeded(got);
      assertArrayEquals(body, got.body());
      shop.ran(0);
    }
  }

  @Test
  void anEmptyReplyIsReplayed() {
    try (Shop shop = new Shop()) {
      shop.does((request, answer) -> answered(answer, ""));
      Answer first = shop.charge("order-1");
      succeeded(first);
      replayed(shop.charge("order-1"), first);
      shop.ran(1);
    }
  }

  @Test
  void aFailureIsReplayed() {
    try (Shop shop = new Shop()) {
      shop.does(
          (request, answer) ->
              answer.onError(failure(Status.FAILED_PRECONDITION.withDescription("declined"))));
      Answer first = shop.charge("order-1");
      assertEquals(Code.FAILED_PRECONDITION, first.code());
      assertEquals(List.of("c"), first.trailer("shop-trailer"));
      replayed(shop.charge("order-1"), first);
      shop.ran(1);
    }
  }

  @Test
  void aFailureIsReplayedWithItsDetails() {
    try (Shop shop = new Shop()) {
      shop.does(
          (request, answer) ->
              answer.onError(detailed(Code.FAILED_PRECONDITION, "NO_MONEY", "example.org")));
      Answer first = shop.charge("order-1");
      assertEquals("NO_MONEY", Calls.errorInfo(first.trailers()).getReason());
      Answer retry = shop.charge("order-1");
      replayed(retry, first);
      assertEquals("NO_MONEY", Calls.errorInfo(retry.trailers()).getReason());
      shop.ran(1);
    }
  }

  @Test
  void anotherRequestIsRefused() {
    try (Shop shop = new Shop()) {
      succeeded(shop.charge("order-1"));
      Answer got = shop.call(order(900), WITHIN, "order-1");
      refused(got, Code.FAILED_PRECONDITION, "KEY_REUSED");
      assertEquals(1, got.trailer("idempotency-record").size());
      shop.ran(1);
    }
  }

  @Test
  void aCallWithoutAValidKeyIsRefused() {
    try (Shop shop = new Shop()) {
      refused(shop.call(order(500), WITHIN), Code.INVALID_ARGUMENT, "KEY_MISSING");
      for (String key :
          List.of(
              "a b", "\"a", "a\"b", "a,b", "\"\"", "\"a\"b\"", "\"a\\b\"", "a".repeat(256), "")) {
        refused(shop.charge(key), Code.INVALID_ARGUMENT, "KEY_INVALID");
      }
      shop.ran(0);
    }
  }

  @Test
  void aCallerMaySendItsKeyTwice() {
    try (Shop shop = new Shop()) {
      String key = UUID.randomUUID().toString();
      succeeded(shop.call(order(500), WITHIN, key, key.toUpperCase()));
      succeeded(shop.call(order(500), WITHIN, key, '"' + key + '"'));
      refused(shop.call(order(500), WITHIN, key, "order-1"), Code.INVALID_ARGUMENT, "KEY_INVALID");
      shop.ran(1);
    }
  }

  @Test
  void aKeyThatTheServiceRefuses() {
    try (Shop shop = new Shop()) { // made in the year 2557
      refused(
          shop.charge("0fffffff-ffff-7fff-8fff-ffffffffffff"),
          Code.INVALID_ARGUMENT,
          "KEY_INVALID");
      shop.ran(0);
    }
  }

  @Test
  void theRefusalOfTheScopeIsTheCallers() {
    try (Shop shop = new Shop()) {
      shop.scope.set(Status.UNAUTHENTICATED.withDescription("no certificate"));
      assertEquals(Code.UNAUTHENTICATED, shop.charge("order-1").code());
      shop.ran(0);
    }
  }

  @Test
  void anUnguardedMethodNeedsNoKey() {
    try (Shop shop = new Shop(config -> config.unguarded(PaymentsGrpc.getChargeMethod()))) {
      succeeded(shop.call(order(500), WITHIN));
      succeeded(shop.charge("order-1"));
      succeeded(shop.charge("order-1"));
      shop.ran(3);
    }
  }

  @Test
  void anExceptionLeavesTheOutcomeUnknown() {
    for (Throwable thrown :
        List.of(
            new IllegalStateException("bug"),
            new AssertionError("bug"),
            Status.NOT_FOUND.asRuntimeException())) {
      try (Shop shop = new Shop()) {
        shop.does(
            (request, answer) -> {
              if (thrown instanceof Error error) {
                throw error;
              }
              throw (RuntimeException) thrown;
            });
        refused(shop.charge("order-1"), Code.UNAVAILABLE, "OUTCOME_NOT_RECORDED");
        refused(shop.charge("order-1"), Code.FAILED_PRECONDITION, "OUTCOME_UNKNOWN", "-1");
        shop.ran(1);
      }
    }
  }

  @Test
  void anExceptionAfterTheAnswerDoesNotChangeIt() {
    try (Shop shop = new Shop()) {
      shop.does(
          (request, answer) -> {
            answered(answer, "charge 1");
            throw new IllegalStateException("bug");
          });
      Answer first = shop.charge("order-1");
      succeeded(first);
      replayed(shop.charge("order-1"), first);
      shop.ran(1);
    }
  }

  @Test
  void aHandlerThatAnswersTwice() {
    Map<String, Shop.Work> mistakes =
        Map.of(
            "two responses",
                (request, answer) -> {
                  answer.onNext(ChargeReply.newBuilder().setChargeId("1").build());
                  answered(answer, "2");
                },
            "no response", (request, answer) -> answer.onCompleted());
    mistakes.forEach(
        (name, mistake) -> {
          try (Shop shop = new Shop()) {
            shop.does((request, answer) -> later(() -> mistaken(mistake, request, answer)));
            refused(shop.charge("order-1"), Code.UNAVAILABLE, "OUTCOME_NOT_RECORDED");
            refused(shop.charge("order-1"), Code.FAILED_PRECONDITION, "OUTCOME_UNKNOWN", "-1");
          }
        });
  }

  /** In a thread whose exceptions the guard does not get. */
  private static Answer mistaken(
      Shop.Work mistake, ChargeRequest request, StreamObserver<ChargeReply> answer) {
    try {
      mistake.charge(request, answer);
    } catch (Exception e) {
      throw new IllegalStateException(e);
    }
    return null;
  }

  @Test
  void theFirstEndOfACallCounts() {
    try (Shop shop = new Shop()) {
      BlockingQueue<Throwable> second = new LinkedBlockingQueue<>();
      shop.does(
          (request, answer) -> {
            answered(answer, "charge 1");
            try {
              answer.onError(Status.NOT_FOUND.asException());
              second.add(new AssertionError("accepted"));
            } catch (IllegalStateException e) {
              second.add(e);
            }
          });
      Answer first = shop.charge("order-1");
      succeeded(first);
      assertInstanceOf(IllegalStateException.class, received(second));
      replayed(shop.charge("order-1"), first);
    }
  }

  @Test
  void aHandlerMayAnswerLaterInAnotherThread() {
    try (Shop shop = new Shop()) {
      shop.does(
          (request, answer) ->
              new Thread(Context.current().wrap(() -> answered(answer, "charge 1"))).start());
      Answer first = shop.charge("order-1");
      succeeded(first);
      replayed(shop.charge("order-1"), first);
      shop.ran(1);
    }
  }

  @Test
  void aHandlerThatDoesNotCloseItsCall() throws Exception {
    try (Shop shop =
        new Shop(config -> config.lease(Duration.ofSeconds(1)).maxWork(Duration.ofMillis(100)))) {
      CompletableFuture<StreamObserver<ChargeReply>> open = new CompletableFuture<>();
      BlockingQueue<Context> context = new LinkedBlockingQueue<>();
      shop.does(
          (request, answer) -> {
            context.add(Context.current());
            open.complete(answer);
          });
      refused(shop.charge("order-1"), Code.UNAVAILABLE, "OUTCOME_NOT_RECORDED");
      refused(shop.charge("order-1"), Code.FAILED_PRECONDITION, "OUTCOME_UNKNOWN", "-1");
      ended(received(context));
      // The effect happened: its late reply is recorded.
      answered(open.get(), "charge 1");
      assertTrue(shop.guard.awaitSettled(WITHIN));
      Answer retry = shop.charge("order-1");
      succeeded(retry);
      assertEquals(List.of("true"), retry.trailer("idempotency-replayed"));
      shop.ran(1);
    }
  }

  @Test
  void aClientWhoseDeadlineEndsGetsTheReplyWithItsRetry() {
    try (Shop shop = new Shop(config -> config.maxWait(Duration.ofSeconds(4)))) {
      shop.does(
          (request, answer) -> {
            ended(received(shop.callers));
            assertFalse(Context.current().isCancelled());
            assertFalse(((io.grpc.stub.ServerCallStreamObserver<?>) answer).isCancelled());
            answered(answer, "charge 1");
          });
      Answer first = shop.call(order(500), Duration.ofSeconds(2), "order-1");
      assertEquals(Code.DEADLINE_EXCEEDED, first.code());
      Answer retry = shop.charge("order-1");
      succeeded(retry);
      assertEquals(List.of("true"), retry.trailer("idempotency-replayed"));
      shop.ran(1);
    }
  }

  @Test
  void theWorkOfACallerWhoLeftIsWaitedFor() throws Exception {
    try (Shop shop = new Shop()) {
      BlockingQueue<String> began = new LinkedBlockingQueue<>();
      BlockingQueue<String> finish = new LinkedBlockingQueue<>();
      shop.does(
          (request, answer) -> {
            began.add("");
            received(finish);
            answered(answer, "charge 1");
          });
      assertEquals(
          Code.DEADLINE_EXCEEDED, shop.call(order(500), Duration.ofSeconds(1), "order-1").code());
      received(began);
      assertFalse(shop.guard.awaitSettled(Duration.ofMillis(100)));
      finish.add("");
      assertTrue(shop.guard.awaitSettled(WITHIN));
      assertEquals(RecordState.RECORD_STATE_COMPLETED, shop.record("order-1").getState());
    }
  }

  @Test
  void aHandlersContextHasTheValuesOfTheCallersAndItsOwnDeadline() {
    try (Shop shop = new Shop(config -> config.maxWork(Duration.ofMinutes(3)))) {
      BlockingQueue<String> user = new LinkedBlockingQueue<>();
      BlockingQueue<Long> seconds = new LinkedBlockingQueue<>();
      shop.does(
          (request, answer) -> {
            user.add(Shop.USER.get());
            seconds.add(Context.current().getDeadline().timeRemaining(TimeUnit.SECONDS));
            answered(answer, "charge 1");
          });
      succeeded(shop.charge("order-1"));
      assertEquals("alice", received(user));
      long left = received(seconds);
      assertTrue(left > 60 && left <= 180, left + " s");
    }
  }

  @Test
  void aConcurrentDuplicateIsRefusedWithADelay() {
    try (Shop shop = new Shop()) {
      BlockingQueue<String> began = new LinkedBlockingQueue<>();
      BlockingQueue<String> finish = new LinkedBlockingQueue<>();
      shop.does(
          (request, answer) -> {
            began.add("");
            received(finish);
            answered(answer, "charge 1");
          });
      CompletableFuture<Answer> first = later(() -> shop.charge("order-1"));
      received(began);
      refused(shop.charge("order-1"), Code.ABORTED, "IN_FLIGHT", "1000");
      finish.add("");
      replayed(shop.charge("order-1"), first.join());
      shop.ran(1);
    }
  }

  @Test
  void aLeaseIsKept() {
    BlockingQueue<String> extended = new LinkedBlockingQueue<>();
    try (Shop shop =
        new Shop(
            config -> config.lease(Duration.ofSeconds(6)),
            Faults.atEnd(
                "Extend",
                status -> {
                  extended.add("");
                  return status;
                }))) {
      shop.does(
          (request, answer) -> {
            for (int i = 0; i < 4; i++) { // longer than the lease
              received(extended);
            }
            assertFalse(Context.current().isCancelled());
            answered(answer, "charge 1");
          });
      succeeded(shop.charge("order-1"));
    }
  }

  @Test
  void aLostReservationEndsTheHandlersContext() {
    try (Shop shop = new Shop(GuardTest::withShortLease)) {
      BlockingQueue<String> began = new LinkedBlockingQueue<>();
      BlockingQueue<String> taken = new LinkedBlockingQueue<>();
      BlockingQueue<Throwable> cause = new LinkedBlockingQueue<>();
      shop.does(
          (request, answer) -> {
            began.add("");
            cause.add(ended(Context.current()));
            received(taken);
            answered(answer, "charge 1"); // it had begun the effect before
          });
      CompletableFuture<Answer> first = later(() -> shop.charge("order-1"));
      received(began);
      shop.advance(Duration.ofMinutes(1));
      // Another attempt is granted.
      var verdict =
          shop.service.reserve(
              ReserveRequest.newBuilder()
                  .setRecordKey(recordKey("order-1"))
                  .setRecover(true)
                  .addFingerprints(fingerprint())
                  .build());
      taken.add("");
      assertTrue(verdict.getReserved().getRecovering(), verdict.toString());
      assertInstanceOf(ReservationLostException.class, received(cause));
      refused(first.join(), Code.ABORTED, "RESERVATION_LOST", "100");
      shop.ran(1);
    }
  }

  private static Config.Builder withShortLease(Config.Builder config) {
    return config.lease(Duration.ofSeconds(3));
  }

  @Test
  void anEffectAfterTheLeaseIsRecordedUnlessAnotherAttemptWasGranted() {
    try (Shop shop = new Shop(GuardTest::withShortLease)) {
      BlockingQueue<String> began = new LinkedBlockingQueue<>();
      shop.does(
          (request, answer) -> {
            began.add("");
            ended(Context.current());
            answered(answer, "charge 1");
          });
      CompletableFuture<Answer> answer = later(() -> shop.charge("order-1"));
      received(began);
      shop.advance(Duration.ofMinutes(1));
      Answer first = answer.join();
      succeeded(first);
      replayed(shop.charge("order-1"), first);
      shop.ran(1);
    }
  }

  @Test
  void anUnknownOutcomeIsNotRunAgain() {
    for (Throwable failure :
        List.of(
            Status.INTERNAL.withDescription("the bank did not answer").asException(),
            new IllegalStateException("no status"),
            detailed(Code.ABORTED, "IN_FLIGHT", "grpc-idempotency.dev"),
            Status.RESOURCE_EXHAUSTED
                .withDescription("gRPC message exceeds maximum size 4194304: 5000000")
                .asException())) {
      try (Shop shop =
          new Shop(
              config ->
                  config.released(
                      PaymentsGrpc.getChargeMethod(), Code.ABORTED, Code.RESOURCE_EXHAUSTED))) {
        shop.does((request, answer) -> answer.onError(failure));
        refused(shop.charge("order-1"), Code.UNAVAILABLE, "OUTCOME_NOT_RECORDED");
        refused(shop.charge("order-1"), Code.FAILED_PRECONDITION, "OUTCOME_UNKNOWN", "-1");
        shop.ran(1);
      }
    }
  }

  @Test
  void aReleasedCodeRunsAgain() {
    try (Shop shop =
        new Shop(config -> config.released(PaymentsGrpc.getChargeMethod(), Code.ABORTED))) {
      shop.does(
          (request, answer) ->
              answer.onError(Status.ABORTED.withDescription("the bank is closed").asException()));
      for (int i = 0; i < 2; i++) {
        Answer got = shop.charge("order-1");
        refused(got, Code.ABORTED, "");
        assertEquals("the bank is closed", got.status().getDescription());
      }
      shop.ran(2);
    }
  }

  @Test
  void theAnswerOfCompleteMayBeLost() {
    AtomicInteger tries = new AtomicInteger();
    try (Shop shop = new Shop(config -> config, lost("Complete", 2, tries))) {
      Answer first = shop.charge("order-1");
      succeeded(first);
      assertEquals(3, tries.get());
      replayed(shop.charge("order-1"), first);
      shop.ran(1);
    }
  }

  private static io.grpc.ClientInterceptor lost(String name, int losses, AtomicInteger tries) {
    return Faults.atEnd(
        name,
        status ->
            tries.incrementAndGet() <= losses
                ? Status.UNAVAILABLE.withDescription("the answer was lost")
                : status);
  }

  @Test
  void theAnswerOfReserveMayBeLost() {
    try (Shop shop = new Shop(config -> config, lost("Reserve", 1, new AtomicInteger()))) {
      succeeded(shop.charge("order-1"));
      shop.ran(1);
      assertEquals(1, shop.record("order-1").getAttempt());
    }
  }

  @Test
  void aReservationOfACallerThatGaveUpIsGivenBack() throws Exception {
    try (Shop shop =
        new Shop(
            config -> config.reserveFor(Duration.ofMillis(50)),
            lost("Reserve", 1, new AtomicInteger()))) {
      refused(shop.charge("order-1"), Code.UNAVAILABLE, "STORE_UNAVAILABLE", "1000");
      assertTrue(shop.guard.awaitSettled(WITHIN));
      assertEquals(RecordState.RECORD_STATE_RELEASED, shop.record("order-1").getState());
      shop.ran(0);
    }
  }

  @Test
  void aHandlerDoesNotBeginAfterItsLease() throws Exception {
    AtomicInteger reserves = new AtomicInteger();
    try (Shop shop =
        new Shop(
            config -> config.lease(Duration.ofMillis(300)),
            Faults.atEnd(
                "Reserve",
                status -> {
                  if (reserves.incrementAndGet() == 1) {
                    sleep(Duration.ofMillis(500)); // the process is stopped
                  }
                  return status;
                }))) {
      refused(shop.charge("order-1"), Code.ABORTED, "RESERVATION_LOST", "100");
      shop.ran(0);
    }
  }

  @Test
  void aCallerWhoLeavesBeforeTheWorkBegins() throws Exception {
    AtomicBoolean slow = new AtomicBoolean();
    try (Shop shop =
        new Shop(
            config -> config,
            Faults.atEnd(
                "Reserve",
                status -> {
                  if (slow.get()) {
                    sleep(Duration.ofSeconds(2));
                  }
                  return status;
                }))) {
      succeeded(shop.charge("order-0")); // it connects
      received(shop.callers);
      slow.set(true);
      Answer got = shop.call(order(500), Duration.ofSeconds(1), "order-1");
      assertEquals(Code.DEADLINE_EXCEEDED, got.code());
      ended(received(shop.callers));
      assertTrue(shop.guard.awaitSettled(WITHIN));
      assertEquals(RecordState.RECORD_STATE_RELEASED, shop.record("order-1").getState());
      shop.ran(1);
    }
  }

  @Test
  void aSupersededAttemptWhoseRecordIsGone() {
    AtomicBoolean away = new AtomicBoolean();
    try (Shop shop = new Shop(GuardTest::withShortLease, Faults.away(away))) {
      BlockingQueue<String> began = new LinkedBlockingQueue<>();
      BlockingQueue<String> gone = new LinkedBlockingQueue<>();
      BlockingQueue<Throwable> cause = new LinkedBlockingQueue<>();
      shop.does(
          (request, answer) -> {
            began.add("");
            cause.add(ended(Context.current()));
            received(gone);
            answered(answer, "charge 1");
          });
      CompletableFuture<Answer> first = later(() -> shop.charge("order-1"));
      received(began);
      away.set(true); // no Extend finds the time between
      shop.advance(Duration.ofMinutes(1));
      shop.service.reserve(
          ReserveRequest.newBuilder()
              .setRecordKey(recordKey("order-1"))
              .setRecover(true)
              .addFingerprints(fingerprint())
              .build());
      away.set(false);
      received(cause);
      shop.testing.reset(ResetRequest.getDefaultInstance());
      gone.add("");
      refused(first.join(), Code.ABORTED, "RESERVATION_LOST", "-1");
    }
  }

  private static void sleep(Duration duration) {
    try {
      Thread.sleep(duration.toMillis());
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  @Test
  void nothingRunsWithoutTheDaemon() {
    try (Shop shop =
        new Shop(
            "127.0.0.1:1",
            config -> config.reserveFor(Duration.ofMillis(300)).lease(Duration.ofSeconds(1)))) {
      refused(shop.charge("order-1"), Code.UNAVAILABLE, "STORE_UNAVAILABLE", "1000");
      shop.ran(0);
    }
  }

  @Test
  void aDaemonThatIsAwayDuringTheWork() {
    AtomicBoolean away = new AtomicBoolean();
    try (Shop shop =
        new Shop(
            config ->
                config
                    .lease(Duration.ofMillis(600))
                    .maxWait(Duration.ofMillis(250))
                    .settleFor(Duration.ofMillis(300)),
            Faults.away(away))) {
      shop.does(
          (request, answer) -> {
            away.set(true);
            ended(Context.current()); // the lease is over
            answered(answer, "charge 1");
          });
      refused(shop.charge("order-1"), Code.UNAVAILABLE, "OUTCOME_NOT_RECORDED");
      away.set(false);
      sleep(Duration.ofSeconds(1)); // by the daemon's clock the lease may end later
      refused(shop.charge("order-1"), Code.FAILED_PRECONDITION, "OUTCOME_UNKNOWN", "-1");
      shop.ran(1);
    }
  }

  @Test
  void anInterceptorOfTheChannelMayThrow() {
    for (String name : List.of("Reserve", "Extend", "Complete")) {
      try (Shop shop =
          new Shop(config -> config.lease(Duration.ofSeconds(1)), Faults.thrown(name))) {
        shop.does(
            (request, answer) -> {
              if (name.equals("Extend")) {
                assertInstanceOf(ReservationLostException.class, ended(Context.current()));
              }
              answered(answer, "charge 1");
            });
        Answer got = shop.charge("order-1");
        switch (name) {
          case "Reserve" -> refused(got, Code.UNAVAILABLE, "STORE_UNAVAILABLE", "1000");
          case "Extend" -> succeeded(got);
          default -> refused(got, Code.UNAVAILABLE, "OUTCOME_NOT_RECORDED");
        }
      }
    }
  }

  @Test
  void aReplyWhoseRecordIsGone() {
    for (Status status : List.of(Status.OK, Status.FAILED_PRECONDITION)) {
      try (Shop shop = new Shop()) {
        shop.does(
            (request, answer) -> {
              shop.testing.reset(ResetRequest.getDefaultInstance());
              if (status.isOk()) {
                answered(answer, "charge 1");
              } else {
                answer.onError(status.asException());
              }
            });
        Answer got = shop.charge("order-1");
        refused(got, status.getCode(), "", status.isOk() ? new String[0] : new String[] {"-1"});
        assertEquals(1, got.trailer("idempotency-record").size());
        assertEquals(List.of(), got.trailer("idempotency-expires"));
      }
    }
  }

  @Test
  void thePushbackIsAtMostASecond() throws Exception {
    try (Shop shop = new Shop()) {
      var reserved =
          shop.service.reserve(
              ReserveRequest.newBuilder()
                  .setRecordKey(recordKey("order-1"))
                  .addFingerprints(fingerprint())
                  .build());
      shop.service.release(
          ReleaseRequest.newBuilder()
              .setRecordKey(recordKey("order-1"))
              .setReservationToken(reserved.getReserved().getReservationToken())
              .setPause(Times.proto(Duration.ofMinutes(1)))
              .build());
      Answer got = shop.charge("order-1");
      refused(got, Code.ABORTED, "IN_FLIGHT", "1000");
      Any retry =
          Replies.details(got.trailers()).stream()
              .filter(detail -> detail.is(RetryInfo.class))
              .findFirst()
              .orElseThrow();
      assertTrue(retry.unpack(RetryInfo.class).getRetryDelay().getSeconds() > 30);
    }
  }

  @Test
  void aReplyThatIsTooLargeIsNotKept() {
    try (Shop shop = new Shop()) {
      shop.does((request, answer) -> answered(answer, "a".repeat(17 << 20)));
      Answer first = shop.charge("order-1");
      succeeded(first);
      assertTrue(first.body().length > 17 << 20);
      refused(shop.charge("order-1"), Code.FAILED_PRECONDITION, "REPLY_NOT_KEPT");
      shop.ran(1);
    }
  }

  @Test
  void anAttemptOfAnotherGuardMayHaveReleasedAnUnknownOutcome() {
    try (Shop shop = new Shop()) {
      var reserved =
          shop.service.reserve(
              ReserveRequest.newBuilder()
                  .setRecordKey(recordKey("order-1"))
                  .addFingerprints(fingerprint())
                  .setOnLeaseExpiry(LeaseExpiry.LEASE_EXPIRY_TAKE_OVER)
                  .build());
      shop.service.release(
          ReleaseRequest.newBuilder()
              .setRecordKey(recordKey("order-1"))
              .setReservationToken(reserved.getReserved().getReservationToken())
              .build());
      refused(shop.charge("order-1"), Code.FAILED_PRECONDITION, "OUTCOME_UNKNOWN", "-1");
      shop.ran(0);
    }
  }

  @Test
  void aRecordThatCannotBeReadIsGivenBack() throws Exception {
    try (Shop shop =
        new Shop(
            config -> config.released(PaymentsGrpc.getChargeMethod(), Code.ABORTED),
            Faults.thrown("Get"))) {
      shop.does((request, answer) -> answer.onError(Status.ABORTED.asException()));
      refused(shop.charge("order-1"), Code.ABORTED, "");
      refused(shop.charge("order-1"), Code.UNAVAILABLE, "STORE_UNAVAILABLE", "1000");
      assertEquals(RecordState.RECORD_STATE_RELEASED, shop.record("order-1").getState());
      shop.ran(1);
    }
  }

  @Test
  void aGrantOfAnotherGuardsRecordIsNotGivenBackAsIfNothingHappened() throws Exception {
    try (Shop shop =
        new Shop(
            config -> config.reserveFor(Duration.ofMillis(50)),
            lost("Reserve", 1, new AtomicInteger()))) {
      shop.service.reserve(
          ReserveRequest.newBuilder()
              .setRecordKey(recordKey("order-1"))
              .addFingerprints(fingerprint())
              .setOnLeaseExpiry(LeaseExpiry.LEASE_EXPIRY_TAKE_OVER)
              .build());
      shop.advance(Duration.ofMinutes(1));
      refused(shop.charge("order-1"), Code.UNAVAILABLE, "STORE_UNAVAILABLE", "1000");
      assertTrue(shop.guard.awaitSettled(WITHIN));
      assertEquals(RecordState.RECORD_STATE_UNKNOWN, shop.record("order-1").getState());
    }
  }

  @Test
  void aReplyThatTheServiceRefusesIsRecordedWithoutItsContent() {
    AtomicInteger completes = new AtomicInteger();
    try (Shop shop =
        new Shop(
            config -> config,
            Faults.refusedFirst("Complete", Status.INVALID_ARGUMENT, completes))) {
      succeeded(shop.charge("order-1"));
      assertEquals(2, completes.get());
      refused(shop.charge("order-1"), Code.FAILED_PRECONDITION, "REPLY_NOT_KEPT");
      shop.ran(1);
    }
  }

  @Test
  void anAttemptOfAnotherGuardMayHaveRun() { // whether the record can be read or not
    try (Shop shop = new Shop(config -> config, Faults.thrown("Get"))) {
      shop.service.reserve(
          ReserveRequest.newBuilder()
              .setRecordKey(recordKey("order-1"))
              .addFingerprints(fingerprint())
              .setOnLeaseExpiry(LeaseExpiry.LEASE_EXPIRY_TAKE_OVER)
              .build());
      shop.advance(Duration.ofMinutes(1));
      refused(shop.charge("order-1"), Code.FAILED_PRECONDITION, "OUTCOME_UNKNOWN", "-1");
      refused(shop.charge("order-1"), Code.FAILED_PRECONDITION, "OUTCOME_UNKNOWN", "-1");
      shop.ran(0);
    }
  }

  @Test
  void aConfigurationIsChecked() {
    ManagedChannel channel =
        ServiceChannel.builder("127.0.0.1:1", io.grpc.InsecureChannelCredentials.create()).build();
    Config.Scope scope = (call, headers) -> "tenant-1";
    List<Config.Builder> wrong =
        List.of(
            Config.builder(channel, "", scope),
            Config.builder(channel, "payments", null),
            Config.builder(null, "payments", scope),
            Config.builder(channel, "payments", scope).maxWait(Duration.ofSeconds(5)),
            Config.builder(channel, "payments", scope)
                .reserveFor(Duration.ofSeconds(1))
                .maxWait(Duration.ofSeconds(1)),
            Config.builder(channel, "payments", scope).lease(Duration.ofSeconds(-1)),
            Config.builder(channel, "payments", scope).maxWork(Duration.ZERO),
            Config.builder(channel, "payments", scope).reserveFor(Duration.ofSeconds(16)));
    wrong.forEach(one -> assertThrows(RuntimeException.class, one::build));
    for (Code code :
        List.of(
            Code.OK,
            Code.CANCELLED,
            Code.UNKNOWN,
            Code.DEADLINE_EXCEEDED,
            Code.UNIMPLEMENTED,
            Code.INTERNAL,
            Code.UNAVAILABLE)) {
      assertThrows(
          IllegalArgumentException.class,
          Config.builder(channel, "payments", scope)
                  .released(PaymentsGrpc.getChargeMethod(), Code.ABORTED, code)
              ::build);
    }
    channel.shutdownNow();
  }
}
