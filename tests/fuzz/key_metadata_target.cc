// `idempotency-key` and the field that may carry it. The first line is the field, every other one a
// value of the metadata entry.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

#include "core/utf8.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/idempotency_key.h"
#include "grpc_idempotency/limits.h"
#include "grpc_idempotency/record_key.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/property.h"
#include "tests/fuzz/targets.h"

namespace idempotency::internal::fuzz {
namespace {

using Key = absl::StatusOr<std::string>;
using Values = std::vector<std::string_view>;

std::string Quoted(std::string_view key) {
  std::string quoted = "\"";
  for (const char c : key) {
    if (c == '"' || c == '\\') quoted.push_back('\\');
    quoted.push_back(c);
  }
  return quoted + "\"";
}

void RequireGoodKey(const std::string& key) {
  Require(!key.empty() && key.size() <= limits::kMaxKeyBytes, "a key has 1 to 255 characters");
  Require(std::all_of(key.begin(), key.end(), [](char c) { return c >= 0x21 && c <= 0x7E; }),
          "a key is visible ASCII");
  Require(NormaliseKey(key) == key, "a key is normalised");
  const std::string quoted = Quoted(key);
  const Key again = ParseIdempotencyKey(Values{quoted});
  Require(again.ok() && *again == key, "a key in quotes is the same key");
}

void RequireGoodError(const absl::Status& error, bool nothing_sent) {
  Require(ReasonOf(error) == (nothing_sent ? Reason::kKeyMissing : Reason::kKeyInvalid),
          "KEY_MISSING without a key, otherwise KEY_INVALID");
  Require(error.message().size() < 200 && IsUtf8WithoutControls(std::string(error.message())),
          "an error does not quote the key");
}

bool Same(const Key& a, const Key& b) { return a.ok() == b.ok() && (!a.ok() || *a == *b); }

}  // namespace

void KeyMetadata(std::string_view bytes) {
  Input input(bytes);
  const KeyInField field{"request_id", input.Line()};
  Values values;
  while (!input.empty() && values.size() < 8) values.push_back(input.Line());

  const Key key = ParseIdempotencyKey(values, field);
  if (key.ok()) {
    RequireGoodKey(*key);
  } else {
    RequireGoodError(key.status(), values.empty() && field.value.empty());
  }
  if (field.value.empty()) {
    Require(Same(key, ParseIdempotencyKey(values)), "an empty field changes nothing");
  } else if (values.empty() && key.ok()) {
    Require(Same(key, ParseIdempotencyKey({field.value})), "a key is the same in either place");
  }
  Values other_order(values.rbegin(), values.rend());
  Require(Same(key, ParseIdempotencyKey(other_order, field)), "the order of values is no matter");
  other_order.insert(other_order.end(), values.begin(), values.end());
  Require(Same(key, ParseIdempotencyKey(other_order, field)), "equal values count as one");
}

}  // namespace idempotency::internal::fuzz
