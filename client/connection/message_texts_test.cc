#include "client/connection/message_texts.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

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

absl::Status Validate(const v1::SessionOperation& operation) {
  switch (operation.operation_case()) {
    case v1::SessionOperation::kReserve:
      return ValidateTexts(operation.reserve());
    case v1::SessionOperation::kComplete:
      return ValidateTexts(operation.complete());
    case v1::SessionOperation::kRelease:
      return ValidateTexts(operation.release());
    case v1::SessionOperation::kExtend:
      return ValidateTexts(operation.extend());
    case v1::SessionOperation::kGet:
      return ValidateTexts(operation.get());
    default:
      return absl::OkStatus();
  }
}

TEST(MessageTextsTest, NamesTheFieldWhoseTextIsNotUtf8) {
  const SilentProtobuf silent;
  using Spoil = std::function<void(v1::SessionOperation&, const std::string&)>;
  const std::vector<std::pair<std::string, Spoil>> cases = {
      {"record_key.namespace",
       [](auto& operation, auto& bad) {
         operation.mutable_reserve()->mutable_record_key()->set_namespace_(bad);
       }},
      {"request_token",
       [](auto& operation, auto& bad) { operation.mutable_reserve()->set_request_token(bad); }},
      {"parent.scope",
       [](auto& operation, auto& bad) {
         operation.mutable_reserve()->mutable_parent()->set_scope(bad);
       }},
      {"labels.value",
       [](auto& operation, auto& bad) {
         (*operation.mutable_reserve()->mutable_labels())["traceparent"] = bad;
       }},
      {"labels.key",
       [](auto& operation, auto& bad) {
         (*operation.mutable_reserve()->mutable_labels())[bad] = "value";
       }},
      {"reply.message",
       [](auto& operation, auto& bad) {
         operation.mutable_complete()->mutable_reply()->set_message(bad);
       }},
      {"reply.trailing_metadata.key",
       [](auto& operation, auto& bad) {
         operation.mutable_complete()->mutable_reply()->add_trailing_metadata()->set_key("good");
         operation.mutable_complete()->mutable_reply()->add_trailing_metadata()->set_key(bad);
       }},
      {"reason", [](auto& operation, auto& bad) { operation.mutable_release()->set_reason(bad); }},
      {"record_id",
       [](auto& operation, auto& bad) { operation.mutable_get()->set_record_id(bad); }},
  };
  for (const auto& [field, spoil] : cases) {
    for (const std::string& bad : BadTexts()) {
      v1::SessionOperation operation;
      spoil(operation, bad);
      v1::SessionOperation parsed;
      EXPECT_FALSE(parsed.ParseFromString(operation.SerializeAsString())) << field;
      const absl::Status status = Validate(operation);
      ASSERT_EQ(ReasonOf(status), Reason::kRequestInvalid) << field;
      EXPECT_EQ(DetailsOf(status).violations[0].field, field);
    }
  }
}

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Calls `check` once for each text in `part` and in the messages in it, while only that text of
// the whole request is not UTF-8.
void SpoilEachText(Message& part, const std::function<void(const std::string& field)>& check) {
  const google::protobuf::Reflection& reflection = *part.GetReflection();
  for (int i = 0; i < part.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor& field = *part.GetDescriptor()->field(i);
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      SpoilEachText(*(field.is_repeated() ? reflection.AddMessage(&part, &field)
                                          : reflection.MutableMessage(&part, &field)),
                    check);
    } else if (field.type() == FieldDescriptor::TYPE_STRING) {
      ASSERT_FALSE(field.is_repeated()) << field.full_name();
      reflection.SetString(&part, &field, "\xff");
      check(field.full_name());
    } else {
      continue;
    }
    reflection.ClearField(&part, &field);
  }
}

template <typename Request>
int CheckEachText() {
  Request request;
  int texts = 0;
  SpoilEachText(request, [&](const std::string& field) {
    ++texts;
    EXPECT_EQ(ReasonOf(ValidateTexts(request)), Reason::kRequestInvalid) << field;
  });
  EXPECT_TRUE(ValidateTexts(request).ok());
  return texts;
}

TEST(MessageTextsTest, EveryTextOfEveryRequestIsChecked) {
  EXPECT_GE(CheckEachText<v1::ReserveRequest>(), 11);
  EXPECT_GE(CheckEachText<v1::CompleteRequest>(), 8);
  EXPECT_GE(CheckEachText<v1::ReleaseRequest>(), 6);
  EXPECT_GE(CheckEachText<v1::ExtendRequest>(), 5);
  EXPECT_GE(CheckEachText<v1::GetRequest>(), 5);
}

TEST(MessageTextsTest, AnyBytesMayStandWhereBytesDo) {
  v1::SessionOperation operation;
  EXPECT_TRUE(Validate(operation).ok());
  v1::CompleteRequest& complete = *operation.mutable_complete();
  complete.mutable_record_key()->set_scope("\u20ac");
  complete.mutable_reply()->set_body("\xff");
  complete.mutable_reply()->add_stream("\xff");
  complete.mutable_reply()->add_trailing_metadata()->set_value("\xff");
  EXPECT_TRUE(Validate(operation).ok());
  v1::SessionOperation parsed;
  EXPECT_TRUE(parsed.ParseFromString(operation.SerializeAsString()));
  operation.mutable_extend()->set_checkpoint("\xff");
  EXPECT_TRUE(Validate(operation).ok());
}

}  // namespace
}  // namespace idempotency::internal
