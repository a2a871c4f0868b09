#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_WIRE_SENT_REPLY_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_WIRE_SENT_REPLY_H_

#include <memory>
#include <string>

#include "idempotency/v1/record.pb.h"
#include "interceptors/server/wire/record_metadata.h"

namespace idempotency::internal {

// A reply that is sent in place of a handler's. The stored part may be shared with the replay
// cache and with other calls, so it is not changed: what is added to it for this call is apart.
class SentReply {
 public:
  // `trailers`, which are legal in gRPC, follow the trailing metadata of `stored`.
  SentReply(std::shared_ptr<const v1::Reply> stored, MetadataEntries trailers);
  // A reply to which nothing is added.
  explicit SentReply(v1::Reply reply);

  const v1::Reply& stored() const { return *stored_; }
  const MetadataEntries& trailers() const { return trailers_; }
  // `bytes`, a part of the stored reply, which it keeps alive.
  std::shared_ptr<const std::string> Share(const std::string& bytes) const {
    return std::shared_ptr<const std::string>(stored_, &bytes);
  }

  // A copy, with everything in it.
  v1::Reply Whole() const;

 private:
  std::shared_ptr<const v1::Reply> stored_;
  MetadataEntries trailers_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_WIRE_SENT_REPLY_H_
