package org.example.idempotency;

import io.grpc.ChannelCredentials;
import io.grpc.Grpc;
import io.grpc.ManagedChannelBuilder;
import java.util.concurrent.TimeUnit;

/** The channel to idempotencyd (rule 0). */
public final class ServiceChannel {
  private static final int MAX_REPLY_MESSAGE_BYTES = 16 << 20;
  private static final int KEEPALIVE_SECONDS = 20;
  private static final int KEEPALIVE_ANSWER_SECONDS = 5;

  private ServiceChannel() {}

  public static ManagedChannelBuilder<?> builder(String target, ChannelCredentials credentials) {
    return Grpc.newChannelBuilder(target, credentials)
        .maxInboundMessageSize(MAX_REPLY_MESSAGE_BYTES)
        .keepAliveTime(KEEPALIVE_SECONDS, TimeUnit.SECONDS)
        .keepAliveTimeout(KEEPALIVE_ANSWER_SECONDS, TimeUnit.SECONDS)
        .defaultLoadBalancingPolicy("round_robin");
  }
}
