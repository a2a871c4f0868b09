#include "core/key_field.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testdata/key_field.pb.h"

namespace idempotency::internal {
namespace {

using testdata::KeyedRequest;
using testing::HasSubstr;

absl::StatusOr<KeyField> Resolve(std::string_view name) {
  const auto* service = KeyedRequest::descriptor()->file()->service(0);
  return KeyField::Resolve(*service->FindMethodByName("Act"), name);
}

TEST(KeyFieldTest, ReadsTheRequestAndMessagesInIt) {
  KeyedRequest request;
  const KeyField field = Resolve("request_id").value();
  const KeyField nested = Resolve("envelope.request_id").value();
  EXPECT_EQ(field.name(), "request_id");
  EXPECT_EQ(nested.path().size(), 2u);
  EXPECT_EQ(field.Read(request), "");
  EXPECT_EQ(nested.Read(request), "");
  request.set_request_id("outer");
  request.mutable_envelope()->set_request_id("inner");
  EXPECT_EQ(field.Read(request), "outer");
  EXPECT_EQ(nested.Read(request), "inner");
}

TEST(KeyFieldTest, ErrorsNameTheMethodAndWhatIsWrong) {
  const std::string message = "idempotency.testdata.KeyedRequest";
  const std::pair<std::string, std::string> cases[] = {
      {"reqest_id", message + " has no field \"reqest_id\""},
      {"envelope.key", "idempotency.testdata.KeyedEnvelope has no field \"key\""},
      {"", message + " has no field \"\""},
      {"envelope.", "has no field \"\""},
      {"amount_cents", message + ".amount_cents is not a string"},
      {"envelope", message + ".envelope is not a string"},
      {"account.request_id", message + ".account is not a message"},
      {"envelopes.request_id", message + ".envelopes is repeated"},
      {"ticket", message + ".ticket is in a oneof"},
      {"parcel.request_id", message + ".parcel is in a oneof"},
  };
  for (const auto& [name, what] : cases) {
    const absl::Status status = Resolve(name).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(std::string(status.message()), HasSubstr("/idempotency.testdata.Keyed/Act"));
    EXPECT_THAT(std::string(status.message()), HasSubstr(what));
  }
}

}  // namespace
}  // namespace idempotency::internal
