package org.example.idempotency;

import static org.example.idempotency.Shop.answered;
import static org.example.idempotency.Shop.attempt;
import static org.example.idempotency.Shop.later;
import static org.example.idempotency.Shop.received;
import static org.example.idempotency.Shop.recordKey;
import static org.example.idempotency.Shop.refused;
import static org.example.idempotency.Shop.replayed;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Any;
import com.google.rpc.RetryInfo;
import dev.grpcidempotency.v1.ReleaseRequest;
import io.grpc.Status.Code;
import java.time.Duration;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import org.example.idempotency.Shop.Answer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A call whose key is in use, or in a pause, is refused with a delay. */
@Timeout(60)
final class InFlightTest {
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
  void thePushbackIsAtMostASecond() throws Exception {
    try (Shop shop = new Shop()) {
      var reserved = shop.service.reserve(attempt("order-1").build());
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
}
