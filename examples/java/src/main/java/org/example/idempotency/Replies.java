package org.example.idempotency;

import com.google.protobuf.Any;
import com.google.protobuf.ByteString;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Timestamp;
import com.google.rpc.ErrorInfo;
import dev.grpcidempotency.v1.MetadataEntry;
import dev.grpcidempotency.v1.Replay;
import dev.grpcidempotency.v1.Reply;
import dev.grpcidempotency.v1.ReplyContent;
import io.grpc.Metadata;
import io.grpc.ServerCall;
import io.grpc.Status;
import io.grpc.Status.Code;
import io.grpc.StatusRuntimeException;
import java.nio.charset.StandardCharsets;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.regex.Pattern;

/** Replies: from a handler to the record, and from the record to a caller. */
final class Replies {
  static final int MAX_REPLY_BYTES = 8 << 20;

  /** Of a reply that is recorded without its content. */
  private static final int MAX_MESSAGE_CHARACTERS = 1 << 10;

  private static final Metadata.Key<byte[]> DETAILS = binary("grpc-status-details-bin");
  private static final Metadata.Key<String> EXPIRES = Refusal.ascii("idempotency-expires");
  private static final Metadata.Key<String> REPLAYED = Refusal.ascii("idempotency-replayed");
  private static final Metadata.Key<String> CONTENT = Refusal.ascii("idempotency-content");

  // The service refuses others, when the effect has happened.
  private static final Pattern NAME = Pattern.compile("(?!grpc-|idempotency-)[a-z0-9_.-]+");
  private static final Pattern VALUE = Pattern.compile("[ -~]*");

  private Replies() {}

  /** The reply of a handler, as its caller and all retries get it. */
  static Reply of(Metadata headers, ByteString body, Status status, Metadata trailers) {
    Reply.Builder reply =
        Reply.newBuilder()
            .setCode(status.getCode().value())
            .addAllInitialMetadata(entries(headers))
            .addAllTrailingMetadata(entries(trailers))
            .setContent(ReplyContent.REPLY_CONTENT_FULL);
    if (status.isOk()) {
      return reply.setBody(body).build();
    }
    if (status.getDescription() != null) {
      reply.setMessage(status.getDescription());
    }
    byte[] details = trailers.get(DETAILS);
    return reply
        .setDetails(details == null ? ByteString.EMPTY : ByteString.copyFrom(details))
        .build();
  }

  /** The reply as it is recorded: without its content if it is too large. */
  static Reply recorded(Reply reply) {
    return reply.getSerializedSize() <= MAX_REPLY_BYTES ? reply : statusOnly(reply);
  }

  static Reply statusOnly(Reply reply) {
    String message = reply.getMessage();
    return Reply.newBuilder()
        .setCode(reply.getCode())
        .setMessage(message.substring(0, Math.min(message.length(), MAX_MESSAGE_CHARACTERS)))
        .setContent(ReplyContent.REPLY_CONTENT_STATUS_ONLY)
        .build();
  }

  /** Answers with a recorded reply, as its content requires (rule 2). */
  static <Q, R> void replay(ServerCall<Q, R> call, String record, Replay replay) {
    Reply reply = replay.getReply();
    Metadata marks = marks(record, replay.getExpiresAt());
    marks.put(REPLAYED, "true");
    switch (reply.getContent()) {
      case REPLY_CONTENT_UNSPECIFIED, REPLY_CONTENT_FULL -> {}
      case REPLY_CONTENT_REDACTED -> marks.put(CONTENT, "redacted");
      default -> {
        if (reply.getCode() == Code.OK.value()) { // an empty reply would be a wrong one
          throw new Refusal(
                  Code.FAILED_PRECONDITION,
                  "REPLY_NOT_KEPT",
                  "the operation has run; its reply is not kept")
              .withMetadata(Map.of("original_code", "0"))
              .error(record);
        }
        if (reply.getContent() == ReplyContent.REPLY_CONTENT_STATUS_ONLY) {
          marks.put(CONTENT, "status-only");
        }
      }
    }
    answer(call, reply, marks);
  }

  /** Ends a call with a reply and further trailers. */
  static <Q, R> void answer(ServerCall<Q, R> call, Reply reply, Metadata marks) {
    Metadata headers = metadata(reply.getInitialMetadataList());
    Metadata trailers = metadata(reply.getTrailingMetadataList());
    trailers.merge(marks);
    Status status = Status.fromCodeValue(reply.getCode());
    if (status.isOk()) {
      call.sendHeaders(headers);
      @SuppressWarnings("unchecked") // the marshaller of protobuf writes each MessageLite
      R body = (R) new RecordedBody(reply.getBody());
      call.sendMessage(body);
    } else {
      if (!headers.keys().isEmpty()) {
        call.sendHeaders(headers);
      }
      if (!reply.getDetails().isEmpty()) {
        trailers.put(DETAILS, reply.getDetails().toByteArray());
      }
      status = status.withDescription(reply.getMessage());
    }
    call.close(status, trailers);
  }

  static void refuse(ServerCall<?, ?> call, StatusRuntimeException refusal) {
    Metadata trailers = refusal.getTrailers();
    call.close(refusal.getStatus(), trailers == null ? new Metadata() : trailers);
  }

  /** The trailers of a reply that is recorded. */
  static Metadata marks(String record, Timestamp expires) {
    Metadata marks = new Metadata();
    marks.put(Refusal.RECORD, record);
    marks.put(EXPIRES, Times.of(expires).truncatedTo(ChronoUnit.SECONDS).toString());
    return marks;
  }

  /** The trailers of an error without all but its details. */
  static Metadata detailsOnly(Metadata trailers) {
    Metadata kept = new Metadata();
    byte[] details = trailers.get(DETAILS);
    if (details != null) {
      kept.put(DETAILS, details);
    }
    return kept;
  }

  static List<Any> details(Metadata trailers) {
    byte[] details = trailers.get(DETAILS);
    try {
      return details == null
          ? List.of()
          : com.google.rpc.Status.parseFrom(details).getDetailsList();
    } catch (InvalidProtocolBufferException e) {
      return List.of();
    }
  }

  static ErrorInfo errorInfo(Any detail) {
    try {
      return detail.unpack(ErrorInfo.class);
    } catch (InvalidProtocolBufferException e) {
      return ErrorInfo.getDefaultInstance();
    }
  }

  private static List<MetadataEntry> entries(Metadata metadata) {
    List<MetadataEntry> entries = new ArrayList<>();
    for (String name : new TreeSet<>(metadata.keys())) {
      if (!NAME.matcher(name).matches()) {
        continue;
      }
      if (name.endsWith(Metadata.BINARY_HEADER_SUFFIX)) {
        for (byte[] value : metadata.getAll(binary(name))) {
          entries.add(entry(name, ByteString.copyFrom(value)));
        }
        continue;
      }
      for (String value : metadata.getAll(Refusal.ascii(name))) {
        if (VALUE.matcher(value).matches()) {
          entries.add(entry(name, ByteString.copyFrom(value, StandardCharsets.US_ASCII)));
        }
      }
    }
    return entries;
  }

  private static MetadataEntry entry(String name, ByteString value) {
    return MetadataEntry.newBuilder().setKey(name).setValue(value).build();
  }

  private static Metadata metadata(List<MetadataEntry> entries) {
    Metadata metadata = new Metadata();
    for (MetadataEntry entry : entries) {
      String name = entry.getKey();
      if (!NAME.matcher(name).matches()) {
        continue;
      }
      if (name.endsWith(Metadata.BINARY_HEADER_SUFFIX)) {
        metadata.put(binary(name), entry.getValue().toByteArray());
      } else {
        metadata.put(Refusal.ascii(name), entry.getValue().toString(StandardCharsets.US_ASCII));
      }
    }
    return metadata;
  }

  private static Metadata.Key<byte[]> binary(String name) {
    return Metadata.Key.of(name, Metadata.BINARY_BYTE_MARSHALLER);
  }
}
