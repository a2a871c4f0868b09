package org.example.idempotency;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Any;
import com.google.protobuf.ByteString;
import com.google.rpc.ErrorInfo;
import dev.grpcidempotency.testing.v1.AdvanceClockRequest;
import dev.grpcidempotency.testing.v1.TestingServiceGrpc;
import dev.grpcidempotency.v1.GetRequest;
import dev.grpcidempotency.v1.IdempotencyServiceGrpc;
import dev.grpcidempotency.v1.IdempotencyServiceGrpc.IdempotencyServiceBlockingStub;
import dev.grpcidempotency.v1.Record;
import dev.grpcidempotency.v1.RecordKey;
import dev.grpcidempotency.v1.ReserveRequest;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientInterceptor;
import io.grpc.ClientInterceptors;
import io.grpc.Context;
import io.grpc.ForwardingServerCall.SimpleForwardingServerCall;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.InsecureServerCredentials;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Server;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.ServerInterceptors;
import io.grpc.Status;
import io.grpc.Status.Code;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.MetadataUtils;
import io.grpc.stub.StreamObserver;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;
import org.example.payments.v1.ChargeReply;
import org.example.payments.v1.ChargeRequest;
import org.example.payments.v1.PaymentsGrpc;

/** A guarded server, its client, and the service behind the guard, in a world of its own. */
final class Shop implements AutoCloseable {
  static final Duration WITHIN = Duration.ofSeconds(20);
  static final String OPERATION = "/" + PaymentsGrpc.getChargeMethod().getFullMethodName();
  static final Context.Key<String> USER = Context.key("user");

  private static final Metadata.Key<String> WORLD = ascii("idempotency-test-world");
  private static final int MAX_REPLY = 32 << 20;

  /** The charges of a handler. */
  interface Work {
    void charge(ChargeRequest request, StreamObserver<ChargeReply> answer) throws Exception;
  }

  /** All that a client gets. */
  record Answer(byte[] body, Status status, Metadata headers, Metadata trailers) {
    Code code() {
      return status.getCode();
    }

    String reason() {
      var info = Calls.errorInfo(trailers);
      return info.getDomain().equals(Refusal.DOMAIN) ? info.getReason() : "";
    }

    List<String> trailer(String name) {
      return values(trailers, name);
    }
  }

  final BlockingQueue<Context> callers = new LinkedBlockingQueue<>();
  final AtomicReference<Status> scope = new AtomicReference<>(Status.OK);
  final AtomicInteger runs = new AtomicInteger();
  final IdempotencyServiceBlockingStub service;
  final TestingServiceGrpc.TestingServiceBlockingStub testing;
  final Guard guard;
  private final Metadata sentHeaders = new Metadata();
  private final Metadata sentTrailers = new Metadata();
  private final AtomicReference<Work> work = new AtomicReference<>();
  private final List<ManagedChannel> channels = new ArrayList<>();
  private final Server server;
  private final ManagedChannel client;

  Shop() {
    this(config -> config);
  }

  Shop(UnaryOperator<Config.Builder> adjust, ClientInterceptor... faults) {
    this(Daemon.target(), adjust, faults);
  }

  /** Adjusts the configuration, and puts faults between the guard and the service. */
  Shop(String target, UnaryOperator<Config.Builder> adjust, ClientInterceptor... faults) {
    Metadata world = new Metadata();
    world.put(WORLD, UUID.randomUUID().toString());
    ClientInterceptor inWorld = MetadataUtils.newAttachHeadersInterceptor(world);
    ManagedChannel guarded =
        opened(
            ServiceChannel.builder(target, InsecureChannelCredentials.create())
                .intercept(faults)
                .intercept(inWorld)
                .build());
    Channel own =
        ClientInterceptors.intercept(
            opened(
                Grpc.newChannelBuilder(Daemon.target(), InsecureChannelCredentials.create())
                    .build()),
            inWorld);
    service = IdempotencyServiceGrpc.newBlockingStub(own);
    testing = TestingServiceGrpc.newBlockingStub(own);
    guard =
        new Guard(
            adjust
                .apply(
                    Config.builder(guarded, "payments", this::scopeOf)
                        .maxWait(Duration.ofMillis(1)))
                .build());
    try {
      server =
          Grpc.newServerBuilderForPort(0, InsecureServerCredentials.create())
              .addService(
                  ServerInterceptors.interceptForward(new Charges(), guard, new HandlersMetadata()))
              .intercept(new Outer())
              .build()
              .start();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    client =
        opened(
            Grpc.newChannelBuilder(
                    "127.0.0.1:" + server.getPort(), InsecureChannelCredentials.create())
                .maxInboundMessageSize(MAX_REPLY)
                .build());
  }

  private String scopeOf(ServerCall<?, ?> call, Metadata headers) {
    if (!scope.get().isOk()) {
      throw scope.get().asRuntimeException();
    }
    return "tenant-1";
  }

  private ManagedChannel opened(ManagedChannel channel) {
    channels.add(channel);
    return channel;
  }

  @Override
  public void close() {
    server.shutdownNow();
    try {
      assertTrue(guard.awaitSettled(WITHIN), "the guard has settled all");
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    guard.close();
    channels.forEach(ManagedChannel::shutdownNow);
  }

  private final class Charges extends PaymentsGrpc.PaymentsImplBase {
    @Override
    public void charge(ChargeRequest request, StreamObserver<ChargeReply> answer) {
      int run = runs.incrementAndGet();
      try {
        if (work.get() != null) {
          work.get().charge(request, answer);
          return;
        }
      } catch (RuntimeException e) {
        throw e;
      } catch (Exception e) {
        throw new IllegalStateException(e);
      }
      answered(answer, "charge " + run);
    }
  }

  /** Of a handler that sends metadata. */
  private final class HandlersMetadata implements ServerInterceptor {
    @Override
    public <Q, R> ServerCall.Listener<Q> interceptCall(
        ServerCall<Q, R> call, Metadata headers, ServerCallHandler<Q, R> next) {
      return next.startCall(
          new SimpleForwardingServerCall<>(call) {
            @Override
            public void sendHeaders(Metadata sent) {
              sent.merge(sentHeaders);
              super.sendHeaders(sent);
            }

            @Override
            public void close(Status status, Metadata trailers) {
              trailers.merge(sentTrailers);
              super.close(status, trailers);
            }
          },
          headers);
    }
  }

  void withMetadata(Metadata headers, Metadata trailers) {
    sentHeaders.merge(headers);
    sentTrailers.merge(trailers);
  }

  /** Stands for an interceptor that authenticates callers. */
  private final class Outer implements ServerInterceptor {
    @Override
    public <Q, R> ServerCall.Listener<Q> interceptCall(
        ServerCall<Q, R> call, Metadata headers, ServerCallHandler<Q, R> next) {
      Context context = Context.current().withValue(USER, "alice");
      callers.add(context);
      return io.grpc.Contexts.interceptCall(context, call, headers, next);
    }
  }

  void does(Work charge) {
    work.set(charge);
  }

  static void answered(StreamObserver<ChargeReply> answer, String id) {
    answer.onNext(ChargeReply.newBuilder().setChargeId(id).build());
    answer.onCompleted();
  }

  static ChargeRequest order(int cents) {
    return ChargeRequest.newBuilder().setAccount("alice").setAmountCents(cents).build();
  }

  Answer charge(String key) {
    return call(order(500), WITHIN, key);
  }

  /** Sends a charge, and keeps the bytes of its reply. */
  Answer call(ChargeRequest request, Duration deadline, String... keys) {
    Metadata sent = new Metadata();
    for (String key : keys) {
      sent.put(ascii("idempotency-key"), key);
    }
    AtomicReference<Metadata> headers = new AtomicReference<>();
    AtomicReference<Metadata> trailers = new AtomicReference<>();
    Channel channel =
        ClientInterceptors.intercept(
            client,
            MetadataUtils.newCaptureMetadataInterceptor(headers, trailers),
            MetadataUtils.newAttachHeadersInterceptor(sent));
    byte[] body = null;
    Status status = Status.OK;
    try {
      body =
          ClientCalls.blockingUnaryCall(
              channel,
              PaymentsGrpc.getChargeMethod().toBuilder(
                      PaymentsGrpc.getChargeMethod().getRequestMarshaller(), new Bytes())
                  .build(),
              CallOptions.DEFAULT.withDeadlineAfter(deadline.toNanos(), TimeUnit.NANOSECONDS),
              request);
    } catch (StatusRuntimeException e) {
      status = e.getStatus();
    }
    return new Answer(body, status, orEmpty(headers.get()), orEmpty(trailers.get()));
  }

  private static Metadata orEmpty(Metadata metadata) {
    return metadata == null ? new Metadata() : metadata;
  }

  private static final class Bytes implements MethodDescriptor.Marshaller<byte[]> {
    @Override
    public InputStream stream(byte[] value) {
      return new ByteArrayInputStream(value);
    }

    @Override
    public byte[] parse(InputStream stream) {
      try {
        return stream.readAllBytes();
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
    }
  }

  /** An error of the catalogue. */
  static void refused(Answer got, Code code, String reason, String... pushback) {
    assertEquals(code + " " + reason, got.code() + " " + got.reason(), got.status().toString());
    assertEquals(List.of(pushback), got.trailer("grpc-retry-pushback-ms"), reason);
  }

  static void succeeded(Answer got) {
    assertEquals(Code.OK, got.code(), got.status() + " " + got.reason());
  }

  /** The recorded answer of the first call. */
  static void replayed(Answer got, Answer first) {
    assertEquals(first.status().toString(), got.status().toString());
    assertArrayEquals(first.body(), got.body());
    assertEquals(List.of("true"), got.trailer("idempotency-replayed"));
    assertEquals(1, got.trailer("idempotency-record").size());
    assertEquals(1, got.trailer("idempotency-expires").size());
    for (String name :
        List.of(
            "idempotency-record",
            "idempotency-expires",
            "shop-trailer",
            "shop-trailer-bin",
            "grpc-status-details-bin")) {
      assertEquals(first.trailer(name), got.trailer(name), name);
    }
    assertEquals(values(first.headers(), "shop-header"), values(got.headers(), "shop-header"));
  }

  void ran(int times) {
    assertEquals(times, runs.get(), "runs");
  }

  void advance(Duration by) {
    testing.advanceClock(AdvanceClockRequest.newBuilder().setBy(Times.proto(by)).build());
  }

  Record record(String key) {
    return service.get(GetRequest.newBuilder().setRecordKey(recordKey(key)).build()).getRecord();
  }

  static RecordKey recordKey(String key) {
    return RecordKey.newBuilder()
        .setNamespace("payments")
        .setScope("tenant-1")
        .setOperation(OPERATION)
        .setKey(key)
        .build();
  }

  /** At a charge of 500 cents, by another guard. */
  static ReserveRequest.Builder attempt(String key) {
    return ReserveRequest.newBuilder()
        .setRecordKey(recordKey(key))
        .addFingerprints(Fingerprints.of(OPERATION, order(500)));
  }

  /** A failure whose details have an ErrorInfo. */
  static StatusRuntimeException detailed(Code code, String reason, String domain) {
    return StatusProto.toStatusRuntimeException(
        com.google.rpc.Status.newBuilder()
            .setCode(code.value())
            .setMessage("declined")
            .addDetails(
                Any.pack(ErrorInfo.newBuilder().setReason(reason).setDomain(domain).build()))
            .build());
  }

  static CompletableFuture<Answer> later(Supplier<Answer> call) {
    return CompletableFuture.supplyAsync(call, task -> new Thread(task).start());
  }

  static void sleep(Duration duration) {
    try {
      Thread.sleep(duration.toMillis());
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  static <T> T received(BlockingQueue<T> signal) {
    try {
      T value = signal.poll(WITHIN.toSeconds(), TimeUnit.SECONDS);
      assertNotNull(value, "no signal");
      return value;
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  /** Waits for the end of a Context, and returns its cause. */
  static Throwable ended(Context context) {
    BlockingQueue<Context> end = new LinkedBlockingQueue<>();
    context.addListener(end::add, Runnable::run);
    return received(end).cancellationCause();
  }

  static Metadata.Key<String> ascii(String name) {
    return Metadata.Key.of(name, Metadata.ASCII_STRING_MARSHALLER);
  }

  static Metadata.Key<byte[]> binary(String name) {
    return Metadata.Key.of(name, Metadata.BINARY_BYTE_MARSHALLER);
  }

  static List<String> values(Metadata metadata, String name) {
    List<String> values = new ArrayList<>();
    if (name.endsWith("-bin")) {
      Iterable<byte[]> found = metadata.getAll(binary(name));
      if (found != null) {
        found.forEach(value -> values.add(ByteString.copyFrom(value).toString()));
        values.replaceAll(value -> value.replaceFirst("@[0-9a-f]+", ""));
      }
      return values;
    }
    Iterable<String> found = metadata.getAll(ascii(name));
    if (found != null) {
      found.forEach(values::add);
    }
    return values;
  }
}
