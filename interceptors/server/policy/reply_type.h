#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_POLICY_REPLY_TYPE_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_POLICY_REPLY_TYPE_H_

#include <memory>
#include <string>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

#include "idempotency/v1/record.pb.h"

namespace idempotency::internal {

// The message type of an operation's replies, and what of them is not stored.
// Immutable.
class ReplyType {
 public:
  // Not known.
  ReplyType() = default;
  explicit ReplyType(const google::protobuf::Descriptor& type);

  // The full name; "" if the type is not known.
  std::string name() const { return type_ == nullptr ? "" : type_->full_name(); }
  // nullptr if the type is not known.
  std::unique_ptr<google::protobuf::Message> New() const;

  // Leaves out of `reply` what must not be stored: in its messages every field
  // marked REPLY_REDACT, at any depth; the same inside google.protobuf.Any, in
  // messages and in the details of a status. A packed message of a type that
  // is not linked into this program may hold such fields: its value is left
  // out, unless it is one of google.protobuf's or google.rpc's own. The content
  // becomes REDACTED if anything was there to leave out, and the bytes stay as
  // they are if not. A message that does not parse cannot be looked through:
  // nothing but code and message is left.
  void Redact(v1::Reply& reply) const;

 private:
  const google::protobuf::Descriptor* type_ = nullptr;
  // A marked field or an Any can stand in its messages.
  bool may_hold_secrets_ = false;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_POLICY_REPLY_TYPE_H_
