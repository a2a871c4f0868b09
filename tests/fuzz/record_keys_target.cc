// The identifiers of a record: a UUID, or the four parts of a key, one in each line. The input is
// read as either.
#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/ascii.h"

#include "core/absl_view.h"
#include "core/utf8.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/limits.h"
#include "grpc_idempotency/record_key.h"
#include "grpc_idempotency/uuid.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/property.h"
#include "tests/fuzz/targets.h"

namespace idempotency::internal::fuzz {
namespace {

void ReadUuid(std::string_view text) {
  const std::optional<Uuid> uuid = Uuid::Parse(text);
  if (!uuid) {
    Require(NormaliseKey(text) == text, "an opaque key stays as it is");
    return;
  }
  Require(uuid->ToString() == absl::AsciiStrToLower(AbslView(text)),
          "a UUID reads as it is written");
  Require(NormaliseKey(text) == uuid->ToString(), "a UUID as a key is lower-cased");
  Require(Uuid(uuid->bytes()) == *uuid, "a UUID is its bytes");
}

void ReadText(const std::string& text) {
  const std::string repaired = ToUtf8(text);
  Require(IsUtf8(repaired) && repaired.size() <= text.size(), "any text can be made UTF-8");
  Require(!IsUtf8(text) || repaired == text, "UTF-8 stays as it is");
  for (const std::size_t most : {std::size_t{0}, std::size_t{1}, text.size() / 2, text.size()}) {
    const std::string_view prefix = Utf8Prefix(repaired, most);
    Require(
        prefix.size() <= most && IsUtf8(prefix) && repaired.compare(0, prefix.size(), prefix) == 0,
        "a prefix of UTF-8 is UTF-8");
  }
}

void ReadKey(std::string_view bytes) {
  Input input(bytes);
  RecordKey key;
  key.name_space = input.Line();
  key.scope = input.Line();
  key.operation = input.Line();
  key.key = NormaliseKey(input.Line());

  const RecordId id = RecordIdFor(key);
  Require(RecordIdFor(FromProto(ToProto(key))) == id, "a key has the same id elsewhere");
  RecordKey other = key;
  other.scope.push_back('x');
  Require(RecordIdFor(other) != id, "another scope is another record");
  if (!key.operation.empty()) {
    other = key;
    other.scope.push_back(other.operation.front());
    other.operation.erase(0, 1);
    Require(RecordIdFor(other) != id, "where one part ends and the next begins counts");
  }
  const absl::Status valid = ValidateRecordKey(key);
  Require(valid.ok() || ReasonOf(valid).has_value(), "a bad key is explained");
  Require(valid.ok() || IsUtf8WithoutControls(std::string(valid.message())),
          "an error does not quote the key");
  if (valid.ok()) {
    Require(!key.key.empty() && key.key.size() <= limits::kMaxKeyBytes && !key.name_space.empty() &&
                key.name_space.size() <= limits::kMaxNamespaceBytes && !key.scope.empty() &&
                key.scope.size() <= limits::kMaxScopeBytes && !key.operation.empty() &&
                key.operation.size() <= limits::kMaxOperationBytes,
            "every part has its bounds");
  }
  const std::optional<absl::Time> time = KeyTime(key);
  const std::optional<Uuid> uuid = Uuid::Parse(key.key);
  Require(time == (uuid ? uuid->TimeOrderedAt() : std::nullopt), "a UUIDv7 tells its time");
}

}  // namespace

void RecordKeys(std::string_view input) {
  ReadUuid(input);
  ReadText(std::string(input));
  ReadKey(input);
}

}  // namespace idempotency::internal::fuzz
