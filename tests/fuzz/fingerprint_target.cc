// A request that is fingerprinted: the bytes of a message with a field of every
// kind.
#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "google/protobuf/dynamic_message.h"
#include "google/protobuf/unknown_field_set.h"

#include "core/canonical_form.h"
#include "grpc_idempotency/fingerprint_algorithm.h"
#include "testdata/shapes.pb.h"
#include "tests/fuzz/property.h"
#include "tests/fuzz/targets.h"

namespace idempotency::internal::fuzz {
namespace {

using google::protobuf::Message;
using google::protobuf::UnknownField;
using google::protobuf::UnknownFieldSet;
using testdata::Shapes;

constexpr std::string_view kMethod = "/shapes.v1.Shapes/Draw";
// Not a field of Shapes.
constexpr int kUnknownNumber = 5000;

std::string DigestOf(const Message& message, std::string_view method = kMethod) {
  return FingerprintV1({method, message}).digest;
}

std::string CanonicalFormOf(const Message& message) {
  std::string form;
  CanonicalFormCost cost;
  Require(AppendCanonicalForm(message, {}, form, &cost), "what was parsed is not too deep");
  Require(cost.bytes_written == form.size() && cost.bytes_moved <= form.size(),
          "no byte is moved twice");
  return form;
}

// The last member of the oneof on the wire is the set one.
int Rank(const UnknownField& field) {
  const bool of_choice = field.number() >= Shapes::kChoiceInt32FieldNumber &&
                         field.number() <= Shapes::kChoiceChildFieldNumber;
  return of_choice ? Shapes::kChoiceInt32FieldNumber : field.number();
}

// The same message with its fields in another order, as another writer may send it; fields of one
// number keep their order, which has a meaning.
std::string InAnotherOrder(const std::string& bytes) {
  UnknownFieldSet fields;
  Require(fields.ParseFromString(bytes), "what is a message has fields");
  std::vector<const UnknownField*> order;
  for (int i = 0; i < fields.field_count(); ++i) order.push_back(&fields.field(i));
  std::stable_sort(order.begin(), order.end(), [](const UnknownField* a, const UnknownField* b) {
    return Rank(*a) > Rank(*b);
  });
  UnknownFieldSet reordered;
  for (const UnknownField* field : order) reordered.AddField(*field);
  std::string result;
  Require(reordered.SerializeToString(&result), "fields can be written");
  return result;
}

Shapes Parsed(const std::string& bytes, std::string_view property) {
  Shapes message;
  Require(message.ParseFromString(bytes), property);
  return message;
}

// Read as by a proxy that got the descriptor over the network.
std::unique_ptr<Message> ParsedAtRunTime(const std::string& bytes) {
  static auto& factory = *std::make_unique<google::protobuf::DynamicMessageFactory>().release();
  std::unique_ptr<Message> message(factory.GetPrototype(Shapes::descriptor())->New());
  Require(message->ParseFromString(bytes), "what one reader reads another one does");
  return message;
}

}  // namespace

void FingerprintedRequest(std::string_view input) {
  const std::string bytes(input);
  Shapes message;
  if (!message.ParseFromString(bytes)) return;
  const std::string digest = DigestOf(message);

  Require(DigestOf(Parsed(message.SerializeAsString(), "a message is sent on")) == digest,
          "a message that is sent on has the same fingerprint");
  Require(DigestOf(Parsed(InAnotherOrder(bytes), "the order of fields is no matter")) == digest,
          "the order of fields on the wire is no matter");
  Require(DigestOf(*ParsedAtRunTime(bytes)) == digest,
          "messages made at run time have the same fingerprint");
  const std::string form = CanonicalFormOf(message);
  Require(CanonicalFormOf(Parsed(form, "the canonical form is a message")) == form,
          "the canonical form is the form of what it says");

  UnknownFieldSet& unknown = *message.GetReflection()->MutableUnknownFields(&message);
  unknown.AddVarint(kUnknownNumber, 1);
  Require(DigestOf(message) != digest, "unknown fields count");
  unknown.DeleteSubrange(unknown.field_count() - 1, 1);
  Require(DigestOf(message, "/shapes.v1.Shapes/Erase") != digest, "the method counts");
}

}  // namespace idempotency::internal::fuzz
