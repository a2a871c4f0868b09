#include "client/connection/message_texts.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/protobuf_version.h"
#include "grpc_idempotency/errors.h"
#include "idempotency/v1/idempotency_service.pb.h"

namespace idempotency::internal {
namespace {

// Every reason for which protobuf's parser refuses text.
const std::vector<std::string>& BadTexts() {
  static const auto& texts = *new std::vector<std::string>{
      "\xff", "text \xc3", "\xed\xa0\x80", "\xc0\x80", "\xf4\x90\x80\x80", "\x80text"};
  return texts;
}

TEST(MessageTextsTest, NamesTheFieldWhoseTextIsNotUtf8) {
  const SilentProtobuf silent;
  using Spoil = std::function<void(v1::SessionOperation&, const std::string&)>;
  const std::vector<std::pair<std::string, Spoil>> cases = {
      {"reserve.record_key.namespace",
       [](auto& operation, auto& bad) {
         operation.mutable_reserve()->mutable_record_key()->set_namespace_(bad);
       }},
      {"reserve.request_token",
       [](auto& operation, auto& bad) { operation.mutable_reserve()->set_request_token(bad); }},
      {"reserve.parent.scope",
       [](auto& operation, auto& bad) {
         operation.mutable_reserve()->mutable_parent()->set_scope(bad);
       }},
      {"reserve.labels.value",
       [](auto& operation, auto& bad) {
         (*operation.mutable_reserve()->mutable_labels())["traceparent"] = bad;
       }},
      {"reserve.labels.key",
       [](auto& operation, auto& bad) {
         (*operation.mutable_reserve()->mutable_labels())[bad] = "value";
       }},
      {"complete.reply.message",
       [](auto& operation, auto& bad) {
         operation.mutable_complete()->mutable_reply()->set_message(bad);
       }},
      {"complete.reply.trailing_metadata.key",
       [](auto& operation, auto& bad) {
         operation.mutable_complete()->mutable_reply()->add_trailing_metadata()->set_key("good");
         operation.mutable_complete()->mutable_reply()->add_trailing_metadata()->set_key(bad);
       }},
      {"release.reason",
       [](auto& operation, auto& bad) { operation.mutable_release()->set_reason(bad); }},
      {"get.record_id",
       [](auto& operation, auto& bad) { operation.mutable_get()->set_record_id(bad); }},
  };
  for (const auto& [field, spoil] : cases) {
    for (const std::string& bad : BadTexts()) {
      v1::SessionOperation operation;
      spoil(operation, bad);
      v1::SessionOperation parsed;
      EXPECT_FALSE(parsed.ParseFromString(operation.SerializeAsString())) << field;
      const absl::Status status = ValidateTexts(operation);
      ASSERT_EQ(ReasonOf(status), Reason::kRequestInvalid) << field;
      EXPECT_EQ(DetailsOf(status).violations[0].field, field);
    }
  }
}

TEST(MessageTextsTest, AnyBytesMayStandWhereBytesDo) {
  v1::SessionOperation operation;
  EXPECT_TRUE(ValidateTexts(operation).ok());
  v1::CompleteRequest& complete = *operation.mutable_complete();
  complete.mutable_record_key()->set_scope("\u20ac");
  complete.mutable_reply()->set_body("\xff");
  complete.mutable_reply()->add_stream("\xff");
  complete.mutable_reply()->add_trailing_metadata()->set_value("\xff");
  EXPECT_TRUE(ValidateTexts(operation).ok());
  v1::SessionOperation parsed;
  EXPECT_TRUE(parsed.ParseFromString(operation.SerializeAsString()));
  operation.mutable_extend()->set_checkpoint("\xff");
  EXPECT_TRUE(ValidateTexts(operation).ok());
}

}  // namespace
}  // namespace idempotency::internal
