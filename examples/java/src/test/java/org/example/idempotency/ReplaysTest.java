package org.example.idempotency;

import static org.example.idempotency.Shop.WITHIN;
import static org.example.idempotency.Shop.answered;
import static org.example.idempotency.Shop.ascii;
import static org.example.idempotency.Shop.attempt;
import static org.example.idempotency.Shop.binary;
import static org.example.idempotency.Shop.detailed;
import static org.example.idempotency.Shop.order;
import static org.example.idempotency.Shop.recordKey;
import static org.example.idempotency.Shop.refused;
import static org.example.idempotency.Shop.replayed;
import static org.example.idempotency.Shop.succeeded;
import static org.example.idempotency.Shop.values;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import dev.grpcidempotency.v1.CompleteRequest;
import dev.grpcidempotency.v1.Reply;
import dev.grpcidempotency.v1.ReserveRequest;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.Status.Code;
import io.grpc.StatusException;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicInteger;
import org.example.idempotency.Shop.Answer;
import org.example.payments.v1.ChargeReply;
import org.example.payments.v1.ChargeRequest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A retry gets the recorded outcome. */
@Timeout(60)
final class ReplaysTest {
  private static StatusException failure(Status status) {
    Metadata trailers = new Metadata();
    trailers.put(ascii("shop-trailer"), "c");
    trailers.put(binary("shop-trailer-bin"), new byte[] {0, -1});
    return status.asException(trailers);
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
          attempt("order-1").build();
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
}
