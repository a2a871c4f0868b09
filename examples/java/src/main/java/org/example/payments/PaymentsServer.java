package org.example.payments;

import io.grpc.Context;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.InsecureServerCredentials;
import io.grpc.ManagedChannel;
import io.grpc.Server;
import io.grpc.ServerInterceptors;
import io.grpc.Status;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.time.Duration;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import org.example.idempotency.Config;
import org.example.idempotency.Guard;
import org.example.idempotency.ServiceChannel;
import org.example.payments.v1.ChargeReply;
import org.example.payments.v1.ChargeRequest;
import org.example.payments.v1.PaymentsGrpc;

/** A payments server whose methods idempotencyd guards: PaymentsServer [PORT [IDEMPOTENCYD]]. */
public final class PaymentsServer {
  /** For running calls when the server ends. */
  private static final Duration DRAIN_LIMIT = Duration.ofSeconds(30);

  private PaymentsServer() {}

  /** Charges accounts; a real one calls a bank. It begins no effect once its Context has ended. */
  private static final class Payments extends PaymentsGrpc.PaymentsImplBase {
    @Override
    public void charge(ChargeRequest request, StreamObserver<ChargeReply> answer) {
      if (request.getAmountCents() <= 0) {
        answer.onError(
            Status.INVALID_ARGUMENT
                .withDescription("amount_cents has to be more than 0")
                .asException());
        return;
      }
      if (Context.current().isCancelled()) {
        answer.onError(Status.CANCELLED.withDescription("nothing was charged").asException());
        return;
      }
      answer.onNext(
          ChargeReply.newBuilder()
              .setChargeId(UUID.randomUUID().toString())
              .putAllNotes(request.getNotesMap())
              .build());
      answer.onCompleted();
    }
  }

  public static void main(String[] arguments) throws IOException, InterruptedException {
    int port = arguments.length > 0 ? Integer.parseInt(arguments[0]) : 50051;
    String idempotencyd = arguments.length > 1 ? arguments[1] : "127.0.0.1:7411";
    // Use TLS in production, here and below.
    ManagedChannel channel =
        ServiceChannel.builder(idempotencyd, InsecureChannelCredentials.create()).build();
    // In production the scope is the caller's authenticated identity, never a value of its choice.
    Guard guard =
        new Guard(Config.builder(channel, "payments", (call, headers) -> "everybody").build());
    Server server =
        Grpc.newServerBuilderForPort(port, InsecureServerCredentials.create())
            .addService(ServerInterceptors.intercept(new Payments(), guard))
            .build()
            .start();
    Runtime.getRuntime().addShutdownHook(new Thread(() -> stop(server, guard, channel)));
    System.out.println("serving on port " + server.getPort());
    server.awaitTermination();
  }

  private static void stop(Server server, Guard guard, ManagedChannel channel) {
    try {
      server.shutdown().awaitTermination(DRAIN_LIMIT.toSeconds(), TimeUnit.SECONDS);
      guard.awaitSettled(DRAIN_LIMIT); // also the work of callers who left
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    } finally {
      guard.close();
      channel.shutdownNow();
    }
  }
}
