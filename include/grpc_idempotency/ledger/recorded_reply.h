#ifndef GRPC_IDEMPOTENCY_LEDGER_RECORDED_REPLY_H_
#define GRPC_IDEMPOTENCY_LEDGER_RECORDED_REPLY_H_

#include <grpcpp/support/status.h>

#include <string_view>

#include "google/protobuf/message_lite.h"

#include "idempotency/v1/record.pb.h"

namespace idempotency {

// What RecordInTransaction commits as the operation's reply: made of the response message,
// or of the status with which the handler declines. A value type.
class RecordedReply {
 public:
  // Serialised here and now, as gRPC will: pass the very object that the
  // handler answers with, when nothing in it will change any more. A copy has
  // its maps in another order. NOLINTNEXTLINE(google-explicit-constructor)
  RecordedReply(const google::protobuf::MessageLite& message);
  // Any status but OK, which is for streams. NOLINTNEXTLINE(google-explicit-constructor)
  RecordedReply(const grpc::Status& status);

  // Of a server-streaming method: each message that the handler writes, in that
  // order, also before it failed.
  RecordedReply& AddStreamMessage(const google::protobuf::MessageLite& message);

  // What the handler puts on its context is not seen here. Metadata that a
  // replay must have even after a crash between commit and completion is named
  // too; it is not sent from here.
  RecordedReply& AddInitialMetadata(std::string_view key, std::string_view value);
  RecordedReply& AddTrailingMetadata(std::string_view key, std::string_view value);

  const v1::Reply& reply() const { return reply_; }

 private:
  v1::Reply reply_;
};

// Whether two replies are the same to a caller, byte for byte, apart from their
// metadata.
bool SameOutcome(const v1::Reply& a, const v1::Reply& b);

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_LEDGER_RECORDED_REPLY_H_
