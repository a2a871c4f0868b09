#include "interceptors/server/policy/reply_type.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/any.pb.h"
#include "google/protobuf/unknown_field_set.h"

#include "grpc_idempotency/reply.h"
#include "idempotency/v1/options.pb.h"

namespace idempotency::internal {
namespace {

using google::protobuf::Any;
using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::MessageFactory;
using google::protobuf::Reflection;
using google::protobuf::UnknownField;
using google::protobuf::UnknownFieldSet;

// An Any in an Any in an Any ...: each level copies its content.
constexpr int kMaxPackedDepth = 16;
// google.rpc.Status.details, repeated Any.
constexpr int kStatusDetailsField = 3;

bool IsRedacted(const FieldDescriptor& field) {
  return field.options().GetExtension(v1::reply) == v1::FieldPolicy::REPLY_REDACT;
}

std::vector<const FieldDescriptor*> FieldsOf(const Descriptor& type) {
  std::vector<const FieldDescriptor*> fields;
  type.file()->pool()->FindAllExtensions(&type, &fields);
  for (int i = 0; i < type.field_count(); ++i) fields.push_back(type.field(i));
  return fields;
}

// Visits every type once: types may contain each other.
bool MayHoldSecrets(const Descriptor& type, absl::flat_hash_set<const Descriptor*>& seen) {
  if (!seen.insert(&type).second) return false;
  if (type.full_name() == Any::descriptor()->full_name()) return true;
  for (const FieldDescriptor* field : FieldsOf(type)) {
    if (IsRedacted(*field)) return true;
    if (field->message_type() != nullptr && MayHoldSecrets(*field->message_type(), seen)) {
      return true;
    }
  }
  return false;
}

// Clears marked fields. Each function returns whether there was one.
class Redactor {
 public:
  // `like` is a message of the pool whose types packed messages may have; nullptr: the linked ones.
  explicit Redactor(const Message* like)
      : pool_(like == nullptr ? *DescriptorPool::generated_pool()
                              : *like->GetDescriptor()->file()->pool()),
        factory_(like == nullptr ? *MessageFactory::generated_factory()
                                 : *like->GetReflection()->GetMessageFactory()) {}

  bool Redact(Message& message) {
    bool found = false;
    if (message.GetDescriptor()->full_name() == Any::descriptor()->full_name()) {
      return RedactPacked(message);
    }
    const Reflection& reflection = *message.GetReflection();
    std::vector<const FieldDescriptor*> fields;
    reflection.ListFields(message, &fields);
    for (const FieldDescriptor* field : fields) {
      if (IsRedacted(*field)) {
        reflection.ClearField(&message, field);
        found = true;
      } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        found |= RedactIn(message, *field);
      }
    }
    return found;
  }

 private:
  bool RedactIn(Message& message, const FieldDescriptor& field) {
    const Reflection& reflection = *message.GetReflection();
    if (!field.is_repeated()) return Redact(*reflection.MutableMessage(&message, &field));
    // A map's entries are messages too.
    bool found = false;
    const int size = reflection.FieldSize(message, &field);
    for (int i = 0; i < size; ++i) {
      found |= Redact(*reflection.MutableRepeatedMessage(&message, &field, i));
    }
    return found;
  }

  // By reflection: the Any may come from a pool other than the generated one.
  bool RedactPacked(Message& any) {
    const Reflection& reflection = *any.GetReflection();
    const FieldDescriptor* const url = any.GetDescriptor()->FindFieldByNumber(1);
    const FieldDescriptor* const value = any.GetDescriptor()->FindFieldByNumber(2);
    std::string bytes = reflection.GetString(any, value);
    if (bytes.empty() || !RedactValue(reflection.GetString(any, url), bytes)) return false;
    reflection.SetString(&any, value, std::move(bytes));
    return true;
  }

  bool RedactValue(absl::string_view url, std::string& bytes) {
    const std::string name(url.substr(url.find_last_of('/') + 1));
    const Descriptor* const type = pool_.FindMessageTypeByName(name);
    if (type == nullptr &&
        (absl::StartsWith(name, "google.rpc.") || absl::StartsWith(name, "google.protobuf."))) {
      return false;
    }
    std::unique_ptr<Message> packed;
    if (type != nullptr && packed_depth_ < kMaxPackedDepth) {
      packed.reset(factory_.GetPrototype(type)->New());
    }
    if (packed == nullptr || !packed->ParsePartialFromString(bytes)) {
      bytes.clear();
      return true;
    }
    ++packed_depth_;
    const bool found = Redact(*packed);
    --packed_depth_;
    if (found) bytes = packed->SerializePartialAsString();
    return found;
  }

  const DescriptorPool& pool_;
  MessageFactory& factory_;
  int packed_depth_ = 0;
};

// True if it could be checked; sets `found` if something was removed.
bool RedactBytes(const ReplyType& type, std::string& bytes, bool& found) {
  const std::unique_ptr<Message> message = type.New();
  if (message == nullptr || !message->ParsePartialFromString(bytes)) return false;
  if (Redactor(message.get()).Redact(*message)) {
    found = true;
    bytes = message->SerializePartialAsString();
  }
  return true;
}

// Parsed as unknown fields: google.rpc.Status need not be linked. Details of another type are a
// handler's own bytes, without marks.
bool RedactDetails(const Message* like, std::string& details) {
  UnknownFieldSet status;
  if (!status.ParseFromString(details)) return false;
  bool found = false;
  for (int i = 0; i < status.field_count(); ++i) {
    UnknownField& field = *status.mutable_field(i);
    if (field.number() != kStatusDetailsField ||
        field.type() != UnknownField::TYPE_LENGTH_DELIMITED) {
      continue;
    }
    Any any;
    if (!any.ParseFromString(std::string(field.length_delimited())) ||
        !Redactor(like).Redact(any)) {
      continue;
    }
    found = true;
    field.set_length_delimited(any.SerializeAsString());
  }
  if (found && !status.SerializeToString(&details)) details.clear();
  return found;
}

}  // namespace

ReplyType::ReplyType(const Descriptor& type)
    : type_(&type), prototype_(MessageFactory::generated_factory()->GetPrototype(&type)) {
  absl::flat_hash_set<const Descriptor*> seen;
  may_hold_secrets_ = MayHoldSecrets(type, seen);
}

ReplyType::ReplyType(const Message& prototype)
    : type_(prototype.GetDescriptor()), prototype_(&prototype) {
  absl::flat_hash_set<const Descriptor*> seen;
  may_hold_secrets_ = MayHoldSecrets(*type_, seen);
}

ReplyType ReplyType::Unmarked() {
  ReplyType type;
  type.unmarked_ = true;
  return type;
}

std::unique_ptr<Message> ReplyType::New() const {
  return std::unique_ptr<Message>(prototype_ == nullptr ? nullptr : prototype_->New());
}

void ReplyType::Redact(v1::Reply& reply) const {
  if (unmarked_) return;
  bool found = !reply.details().empty() && RedactDetails(prototype_, *reply.mutable_details());
  bool readable = true;
  if (may_hold_secrets_) {
    if (reply.has_body()) readable = RedactBytes(*this, *reply.mutable_body(), found);
    for (std::string& message : *reply.mutable_stream()) {
      readable = readable && RedactBytes(*this, message, found);
    }
  }
  if (!readable) {
    reply = WithoutContent(reply);
  } else if (found) {
    reply.set_content(v1::REPLY_CONTENT_REDACTED);
  }
}

}  // namespace idempotency::internal
