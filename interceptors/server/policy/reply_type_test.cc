#include "interceptors/server/policy/reply_type.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "google/protobuf/any.pb.h"
#include "google/protobuf/timestamp.pb.h"

#include "testdata/secrets.pb.h"

namespace idempotency::internal {
namespace {

using testdata::Card;
using testdata::Parcel;
using testdata::Wallet;

constexpr char kSecret[] = "4111-1111";

Card SecretCard() {
  Card card;
  card.set_holder("alice");
  card.set_number(kSecret);
  return card;
}

// The stored part of `message` as a reply's body.
template <typename Message>
v1::Reply Redacted(const Message& message) {
  v1::Reply reply;
  reply.set_body(message.SerializeAsString());
  ReplyType(*Message::descriptor()).Redact(reply);
  return reply;
}

template <typename Message>
Message BodyOf(const v1::Reply& reply) {
  Message message;
  EXPECT_TRUE(message.ParseFromString(reply.body()));
  return message;
}

bool HoldsSecret(const v1::Reply& reply) {
  return reply.SerializeAsString().find(kSecret) != std::string::npos;
}

TEST(ReplyTypeTest, NothingToRedactLeavesTheBytesAsTheyAre) {
  Wallet wallet;
  wallet.set_owner("alice");
  wallet.mutable_main()->set_holder("alice");
  wallet.add_others()->set_holder("alice");
  v1::Reply reply = Redacted(wallet);
  EXPECT_EQ(reply.content(), v1::REPLY_CONTENT_UNSPECIFIED);
  EXPECT_EQ(reply.body(), wallet.SerializeAsString());
}

TEST(ReplyTypeTest, MarkedFieldsGoAtAnyDepth) {
  Wallet wallet;
  wallet.set_owner("alice");
  *wallet.mutable_main() = SecretCard();
  *wallet.add_others() = SecretCard();
  (*wallet.mutable_by_name())["one"] = SecretCard();
  wallet.add_tokens(kSecret);
  (*wallet.mutable_passwords())["door"] = kSecret;
  *wallet.mutable_inner()->mutable_inner()->mutable_key_card() = SecretCard();
  const v1::Reply reply = Redacted(wallet);
  EXPECT_EQ(reply.content(), v1::REPLY_CONTENT_REDACTED);
  EXPECT_FALSE(HoldsSecret(reply));
  const auto left = BodyOf<Wallet>(reply);
  EXPECT_EQ(left.owner(), "alice");
  EXPECT_EQ(left.main().holder(), "alice");
  EXPECT_EQ(left.others(0).holder(), "alice");
  EXPECT_EQ(left.by_name().at("one").holder(), "alice");
  EXPECT_EQ(left.inner().inner().key_card().holder(), "alice");
}

TEST(ReplyTypeTest, MarkedMemberOfAOneofLeavesItUnset) {
  Wallet wallet;
  wallet.set_pin("");  // set, though empty: it was present
  const v1::Reply reply = Redacted(wallet);
  EXPECT_EQ(reply.content(), v1::REPLY_CONTENT_REDACTED);
  EXPECT_EQ(BodyOf<Wallet>(reply).access_case(), Wallet::ACCESS_NOT_SET);
}

TEST(ReplyTypeTest, PackedMessagesAreLookedThrough) {
  Parcel inner;
  inner.mutable_content()->PackFrom(SecretCard());
  Parcel parcel;
  parcel.set_address("here");
  parcel.mutable_content()->PackFrom(inner);
  const v1::Reply reply = Redacted(parcel);
  EXPECT_EQ(reply.content(), v1::REPLY_CONTENT_REDACTED);
  EXPECT_FALSE(HoldsSecret(reply));
  Card card;
  Parcel left;
  ASSERT_TRUE(BodyOf<Parcel>(reply).content().UnpackTo(&left));
  ASSERT_TRUE(left.content().UnpackTo(&card));
  EXPECT_EQ(card.holder(), "alice");
}

TEST(ReplyTypeTest, PackedMessageOfAnUnknownTypeIsNotKept) {
  Parcel parcel;
  parcel.set_address("here");
  parcel.mutable_content()->set_type_url("type.googleapis.com/elsewhere.v1.Card");
  parcel.mutable_content()->set_value(SecretCard().SerializeAsString());
  const v1::Reply reply = Redacted(parcel);
  EXPECT_EQ(reply.content(), v1::REPLY_CONTENT_REDACTED);
  EXPECT_FALSE(HoldsSecret(reply));
  EXPECT_EQ(BodyOf<Parcel>(reply).content().type_url(), "type.googleapis.com/elsewhere.v1.Card");
}

TEST(ReplyTypeTest, EndlesslyPackedMessagesAreNotFollowedForEver) {
  Parcel parcel;
  parcel.mutable_content()->PackFrom(SecretCard());
  for (int i = 0; i < 64; ++i) {
    Parcel outer;
    outer.mutable_content()->PackFrom(parcel);
    parcel = outer;
  }
  const v1::Reply reply = Redacted(parcel);
  EXPECT_FALSE(HoldsSecret(reply));
  EXPECT_EQ(reply.SerializeAsString().find("alice"), std::string::npos)
      << "what is packed so deep is not looked at, and not kept";
}

TEST(ReplyTypeTest, PackedMessagesBesideEachOtherAreNotNested) {
  Parcel parcel;
  for (int i = 0; i < 100; ++i) parcel.add_more()->PackFrom(SecretCard());
  const v1::Reply reply = Redacted(parcel);
  EXPECT_FALSE(HoldsSecret(reply));
  const auto left = BodyOf<Parcel>(reply);
  ASSERT_EQ(left.more_size(), 100);
  for (const google::protobuf::Any& any : left.more()) {
    Card card;
    ASSERT_TRUE(any.UnpackTo(&card));
    EXPECT_EQ(card.holder(), "alice");
  }
}

TEST(ReplyTypeTest, APackedMessageWithoutSecretsIsKeptAsItIs) {
  Parcel parcel;
  Card card;
  card.set_holder("alice");
  parcel.mutable_content()->PackFrom(card);
  const v1::Reply reply = Redacted(parcel);
  EXPECT_EQ(reply.content(), v1::REPLY_CONTENT_UNSPECIFIED);
  EXPECT_EQ(reply.body(), parcel.SerializeAsString());
}

TEST(ReplyTypeTest, ATypeWithoutAMessageIsKept) {
  Parcel parcel;
  parcel.mutable_content()->set_type_url("type.googleapis.com/elsewhere.v1.Card");
  const v1::Reply reply = Redacted(parcel);
  EXPECT_EQ(reply.content(), v1::REPLY_CONTENT_UNSPECIFIED);
  EXPECT_EQ(reply.body(), parcel.SerializeAsString());
}

TEST(ReplyTypeTest, TypesOfGoogleThatAreNotLinkedAreKept) {
  for (const char* type : {"google.rpc.Unlinked", "google.protobuf.Unlinked"}) {
    Parcel parcel;
    parcel.mutable_content()->set_type_url(std::string("type.googleapis.com/") + type);
    parcel.mutable_content()->set_value("kept");
    EXPECT_EQ(Redacted(parcel).body(), parcel.SerializeAsString()) << type;
  }
}

TEST(ReplyTypeTest, APackedMessageThatCannotBeReadIsNotKept) {
  Parcel parcel;
  parcel.mutable_content()->PackFrom(SecretCard());
  parcel.mutable_content()->set_value(std::string("\xff") + kSecret);
  const v1::Reply reply = Redacted(parcel);
  EXPECT_EQ(reply.content(), v1::REPLY_CONTENT_REDACTED);
  EXPECT_FALSE(HoldsSecret(reply));
}

TEST(ReplyTypeTest, DetailsOfAStatusAreLookedThrough) {
  // google.rpc.Status { details: [a packed card, a google.rpc type] }, field 3.
  google::protobuf::Any card;
  card.PackFrom(SecretCard());
  google::protobuf::Any info;
  info.set_type_url("type.googleapis.com/google.rpc.ErrorInfo");
  info.set_value("kept");
  const auto field = [](const google::protobuf::Any& any) {
    const std::string bytes = any.SerializeAsString();
    return std::string("\x1a") + static_cast<char>(bytes.size()) + bytes;
  };
  v1::Reply reply;
  reply.set_code(9);
  reply.set_details("\x08\x09" + field(card) + field(info));
  ReplyType(*Wallet::descriptor()).Redact(reply);
  EXPECT_EQ(reply.content(), v1::REPLY_CONTENT_REDACTED);
  EXPECT_FALSE(HoldsSecret(reply));
  EXPECT_NE(reply.details().find("kept"), std::string::npos);
  EXPECT_NE(reply.details().find("alice"), std::string::npos);

  v1::Reply plain;
  plain.set_details("\x08\x09" + field(info));
  const std::string before = plain.details();
  ReplyType(*Wallet::descriptor()).Redact(plain);
  EXPECT_EQ(plain.content(), v1::REPLY_CONTENT_UNSPECIFIED);
  EXPECT_EQ(plain.details(), before);
}

// Only `details` of a google.rpc.Status are packed messages, even if other fields parse as
// such.
TEST(ReplyTypeTest, OtherFieldsOfAStatusAreKept) {
  google::protobuf::Any card;
  card.PackFrom(SecretCard());
  const std::string packed = card.SerializeAsString();
  const std::string length(1, static_cast<char>(packed.size()));
  // In field 2, and a number in field 3.
  for (const std::string& details :
       {absl::StrCat("\x12", length, packed), std::string("\x18\x05")}) {
    v1::Reply reply;
    reply.set_details(details);
    ReplyType(*Wallet::descriptor()).Redact(reply);
    EXPECT_EQ(reply.content(), v1::REPLY_CONTENT_UNSPECIFIED);
    EXPECT_EQ(reply.details(), details);
    // The same next to a packed one.
    reply.set_details(absl::StrCat(details, "\x1a", length, packed));
    ReplyType(*Wallet::descriptor()).Redact(reply);
    EXPECT_EQ(reply.content(), v1::REPLY_CONTENT_REDACTED);
    EXPECT_EQ(reply.details().substr(0, details.size()), details);
    EXPECT_EQ(reply.details().find(kSecret, details.size()), std::string::npos);
  }
}

TEST(ReplyTypeTest, DetailsThatAreNoStatusAreKept) {
  for (const std::string& details : {std::string("\xff\xff"), std::string("\x1a\x02\xff\xff", 4)}) {
    v1::Reply reply;
    reply.set_details(details);
    ReplyType(*Wallet::descriptor()).Redact(reply);
    EXPECT_EQ(reply.content(), v1::REPLY_CONTENT_UNSPECIFIED);
    EXPECT_EQ(reply.details(), details);
  }
}

TEST(ReplyTypeTest, AReplyWithoutABodyGetsNone) {
  v1::Reply reply;
  reply.set_code(5);
  ReplyType(*Card::descriptor()).Redact(reply);
  EXPECT_FALSE(reply.has_body());
  EXPECT_EQ(reply.content(), v1::REPLY_CONTENT_UNSPECIFIED);
}

TEST(ReplyTypeTest, OneMessageOfAStreamThatCannotBeReadCostsThemAll) {
  for (const bool first : {true, false}) {
    v1::Reply reply;
    if (!first) reply.add_stream(Card().SerializeAsString());
    reply.add_stream(std::string("\xff") + kSecret);
    if (first) reply.add_stream(Card().SerializeAsString());
    ReplyType(*Card::descriptor()).Redact(reply);
    EXPECT_EQ(reply.content(), v1::REPLY_CONTENT_STATUS_ONLY);
    EXPECT_FALSE(HoldsSecret(reply));
  }
}

TEST(ReplyTypeTest, EveryMessageOfAStreamIsLookedThrough) {
  v1::Reply reply;
  reply.add_stream(Card().SerializeAsString());
  reply.add_stream(SecretCard().SerializeAsString());
  ReplyType(*Card::descriptor()).Redact(reply);
  EXPECT_EQ(reply.content(), v1::REPLY_CONTENT_REDACTED);
  EXPECT_EQ(reply.stream_size(), 2);
  EXPECT_FALSE(HoldsSecret(reply));
}

TEST(ReplyTypeTest, WhatCannotBeReadIsNotKept) {
  v1::Reply reply;
  reply.set_body(std::string("\xff") + kSecret);
  ReplyType(*Card::descriptor()).Redact(reply);
  EXPECT_EQ(reply.content(), v1::REPLY_CONTENT_STATUS_ONLY);
  EXPECT_FALSE(HoldsSecret(reply));
}

TEST(ReplyTypeTest, ATypeThatCanHoldNoSecretIsStoredAsItIsReadableOrNot) {
  v1::Reply reply;
  reply.set_body("\xff");
  ReplyType(*google::protobuf::Timestamp::descriptor()).Redact(reply);
  EXPECT_EQ(reply.body(), "\xff");
  EXPECT_EQ(reply.content(), v1::REPLY_CONTENT_UNSPECIFIED);
}

TEST(ReplyTypeTest, UnknownTypeIsStoredAsItIs) {
  v1::Reply reply;
  reply.set_body("anything");
  ReplyType().Redact(reply);
  EXPECT_EQ(reply.body(), "anything");
  EXPECT_EQ(ReplyType().New(), nullptr);
}

}  // namespace
}  // namespace idempotency::internal
