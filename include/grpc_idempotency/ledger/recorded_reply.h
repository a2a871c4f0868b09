#ifndef GRPC_IDEMPOTENCY_LEDGER_RECORDED_REPLY_H_
#define GRPC_IDEMPOTENCY_LEDGER_RECORDED_REPLY_H_

#include <grpcpp/support/status.h>

#include <string_view>

#include "google/protobuf/message_lite.h"

#include "idempotency/v1/record.pb.h"

namespace idempotency {

// The operation's reply that RecordInTransaction commits: made from the response message, or
// from the status with which the handler declines. A value type.
class RecordedReply {
 public:
  // Serialises the message immediately, as gRPC does later: pass the object that the handler
  // answers with, when it no longer changes. A copy has its maps in another order.
  // NOLINTNEXTLINE(google-explicit-constructor)
  RecordedReply(const google::protobuf::MessageLite& message);
  // Any status except OK, which is for streams. NOLINTNEXTLINE(google-explicit-constructor)
  RecordedReply(const grpc::Status& status);

  // For a server-streaming method: add each message that the handler writes, in the order of
  // the writes, also those written before a failure.
  RecordedReply& AddStreamMessage(const google::protobuf::MessageLite& message);

  // The metadata that the handler sets on its context is not recorded here. Add also here the
  // metadata that a replay must have even after a crash between commit and completion; these
  // entries are not sent with the first reply.
  RecordedReply& AddInitialMetadata(std::string_view key, std::string_view value);
  RecordedReply& AddTrailingMetadata(std::string_view key, std::string_view value);

  const v1::Reply& reply() const { return reply_; }

 private:
  v1::Reply reply_;
};

// True if a caller cannot distinguish the two replies: they are equal byte for byte, apart from
// their metadata. If the content of one is STATUS_ONLY, its messages are not known, and only code
// and message are compared.
bool SameOutcome(const v1::Reply& a, const v1::Reply& b);

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_LEDGER_RECORDED_REPLY_H_
