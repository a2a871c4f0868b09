package org.example.idempotency;

import static org.junit.jupiter.api.Assertions.assertThrows;

import io.grpc.ManagedChannel;
import io.grpc.Status.Code;
import java.time.Duration;
import java.util.List;
import org.example.payments.v1.PaymentsGrpc;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A configuration that cannot work is refused. */
@Timeout(60)
final class ConfigTest {
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
