// Metadata of a call other than its key: `traceparent` and `idempotency-parent-bin`. The input is
// read as either.
#include <grpcpp/grpcpp.h>

#include <optional>
#include <string>
#include <string_view>

#include "core/utf8.h"
#include "grpc_idempotency/idempotency_key.h"
#include "grpc_idempotency/limits.h"
#include "grpc_idempotency/record_key.h"
#include "grpc_idempotency/uuid.h"
#include "interceptors/server/log/guard_log.h"
#include "interceptors/server/request/parent_metadata.h"
#include "interceptors/server/wire/traceparent.h"
#include "tests/fuzz/property.h"
#include "tests/fuzz/targets.h"
#include "tests/support/context_peers.h"

namespace idempotency::internal::fuzz {
namespace {

// The size for version 00, which allows no further parts.
constexpr std::size_t kTraceparentBytes = 55;

void ReadTraceparent(std::string_view value) {
  if (!IsTraceparent(value)) return;
  Require(value.size() >= kTraceparentBytes, "a traceparent has all its parts");
  Require(IsUtf8WithoutControls(value) && value.size() <= limits::kMaxLabelValueBytes,
          "a traceparent is a label as it stands");
  std::string first = "00" + std::string(value.substr(2, kTraceparentBytes - 2));
  Require(IsTraceparent(first), "a later version begins as the first one");
  Require(first.find_first_not_of("0123456789abcdef-") == std::string::npos,
          "a traceparent is lower-case hex");
  for (char& c : first) {
    const char before = c;
    c = 'G';
    Require(!IsTraceparent(first), "every character of a traceparent counts");
    c = before;
  }
}

std::optional<v1::RecordKey> ParentIn(const std::string& bytes, int entries) {
  grpc::ServerContext context;
  grpc::testing::ServerContextTestSpouse spouse(&context);
  for (int i = 0; i < entries; ++i) spouse.AddClientMetadata(std::string(kParentMetadata), bytes);
  return ParentOf(context, *GuardLog::Default());
}

void ReadParent(const std::string& bytes) {
  const std::optional<v1::RecordKey> parent = ParentIn(bytes, 1);
  Require(!ParentIn(bytes, 2), "of several parents none is taken");
  if (!parent) return;
  Require(ValidateRecordKey(FromProto(*parent)).ok(), "a parent is a record key");
  Require(Uuid::Parse(parent->key()).has_value(), "a parent's key is a record id");
  Require(parent->GetReflection()->GetUnknownFields(*parent).empty(),
          "nothing unknown is passed on");
  const std::optional<v1::RecordKey> again = ParentIn(parent->SerializeAsString(), 1);
  Require(again && again->SerializeAsString() == parent->SerializeAsString(),
          "a parent that is passed on stays the same");
}

}  // namespace

void ParentAndTrace(std::string_view input) {
  ReadTraceparent(input);
  ReadParent(std::string(input));
}

}  // namespace idempotency::internal::fuzz
