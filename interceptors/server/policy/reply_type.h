#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_POLICY_REPLY_TYPE_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_POLICY_REPLY_TYPE_H_

#include <memory>
#include <string>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

#include "idempotency/v1/record.pb.h"

namespace idempotency::internal {

// The message type of an operation's replies, and the fields in them that are not stored.
// Immutable.
class ReplyType {
 public:
  // An unknown type.
  ReplyType() = default;
  explicit ReplyType(const google::protobuf::Descriptor& type);
  // The same for a type of another pool. The prototype, and its pool, outlive this.
  explicit ReplyType(const google::protobuf::Message& prototype);
  // Messages of any type without marked fields: they are stored unchanged.
  static ReplyType Unmarked();

  // The full name; "" if the type is not known.
  std::string name() const { return type_ == nullptr ? "" : std::string(type_->full_name()); }
  // nullptr if the type is not known.
  std::unique_ptr<google::protobuf::Message> New() const;

  // Removes the data that must not be stored from `reply`: in its messages every field marked
  // REPLY_REDACT, at any depth; the same inside google.protobuf.Any, in messages and in the
  // details of a status. A packed message of a type that is not linked into this program may
  // have such fields: its value is removed, unless it is a type of google.protobuf or
  // google.rpc. If anything was removed, the content becomes REDACTED; otherwise the bytes do
  // not change. A message that does not parse cannot be checked: only code and message remain.
  void Redact(v1::Reply& reply) const;

 private:
  const google::protobuf::Descriptor* type_ = nullptr;
  // nullptr if the type is not known, or its messages cannot be made.
  const google::protobuf::Message* prototype_ = nullptr;
  // Nothing is removed.
  bool unmarked_ = false;
  // Its messages can contain a marked field or an Any.
  bool may_hold_secrets_ = false;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_POLICY_REPLY_TYPE_H_
