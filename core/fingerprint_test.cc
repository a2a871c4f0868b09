#include "grpc_idempotency/fingerprint.h"

#include <gtest/gtest.h>

#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/limits.h"

namespace idempotency::internal {
namespace {

Fingerprint Of(std::uint32_t version, char fill, std::size_t size = 32) {
  return {version, std::string(size, fill)};
}

TEST(CompareFingerprintsTest, EveryCommonVersionMustAgree) {
  EXPECT_EQ(CompareFingerprints({Of(1, 'a')}, {Of(1, 'a')}), FingerprintMatch::kSame);
  EXPECT_EQ(CompareFingerprints({Of(1, 'a')}, {Of(1, 'b')}), FingerprintMatch::kDifferent);
  EXPECT_EQ(CompareFingerprints({Of(1, 'a')}, {Of(2, 'a')}), FingerprintMatch::kNothingInCommon);
  EXPECT_EQ(CompareFingerprints({}, {Of(1, 'a')}), FingerprintMatch::kNothingInCommon);
  EXPECT_EQ(CompareFingerprints({Of(1, 'a'), Of(2, 'b')}, {Of(2, 'b'), Of(3, 'c')}),
            FingerprintMatch::kSame);
  EXPECT_EQ(CompareFingerprints({Of(1, 'a'), Of(2, 'b')}, {Of(1, 'a'), Of(2, 'x')}),
            FingerprintMatch::kDifferent);
  EXPECT_EQ(CompareFingerprints({Of(1, 'a'), Of(2, 'b')}, {Of(1, 'x'), Of(2, 'b')}),
            FingerprintMatch::kDifferent);
}

TEST(ValidateFingerprintsTest, Limits) {
  EXPECT_TRUE(ValidateFingerprints({Of(3, 'a', 16), Of(2, 'b', 64), Of(9, 'c'), Of(1, 'd')}).ok());
  EXPECT_FALSE(ValidateFingerprints({}).ok());
  EXPECT_FALSE(
      ValidateFingerprints({Of(1, 'a'), Of(2, 'a'), Of(3, 'a'), Of(4, 'a'), Of(5, 'a')}).ok());
  EXPECT_FALSE(ValidateFingerprints({Of(0, 'a')}).ok());
  EXPECT_FALSE(ValidateFingerprints({Of(2, 'a', 15)}).ok());
  EXPECT_FALSE(ValidateFingerprints({Of(2, 'a', 65)}).ok());
  // Version 1 is SHA-256.
  EXPECT_FALSE(ValidateFingerprints({Of(1, 'a', 31)}).ok());
  EXPECT_FALSE(ValidateFingerprints({Of(1, 'a', 33)}).ok());
  const absl::Status twice = ValidateFingerprints({Of(2, 'a'), Of(1, 'a'), Of(2, 'a')});
  EXPECT_EQ(ReasonOf(twice), Reason::kRequestInvalid);
  EXPECT_EQ(DetailsOf(twice).violations.at(0).field, "fingerprints[2].version");
}

TEST(ValidateFingerprintsTest, OnTheWireTheRulesAreTheSame) {
  for (const std::vector<Fingerprint>& fingerprints :
       std::vector<std::vector<Fingerprint>>{{},
                                             {Of(1, 'a')},
                                             {Of(3, 'a', 16), Of(2, 'b', 64), Of(1, 'd')},
                                             {Of(0, 'a'), Of(2, 'a', 15), Of(1, 'a', 31)},
                                             {Of(2, 'a'), Of(2, 'a')},
                                             std::vector<Fingerprint>(5, Of(1, 'a'))}) {
    google::protobuf::RepeatedPtrField<v1::Fingerprint> wire;
    for (const Fingerprint& fingerprint : fingerprints) *wire.Add() = ToProto(fingerprint);
    EXPECT_EQ(ValidateWireFingerprints(wire), ValidateFingerprints(fingerprints));
  }
}

TEST(EncodeFingerprintsTest, RoundTripAndLayout) {
  const std::vector<Fingerprint> fingerprints = {Of(1, 'a', 16), Of(0x80000002, 'b', 64)};
  const std::string bytes = EncodeFingerprints(fingerprints);
  EXPECT_EQ(bytes, std::string("\0\0\0\x01\x10", 5) + std::string(16, 'a') +
                       std::string("\x80\0\0\x02\x40", 5) + std::string(64, 'b'));
  EXPECT_EQ(DecodeFingerprints(bytes).value(), fingerprints);
}

TEST(EncodeFingerprintsTest, AnythingElseIsDamaged) {
  const std::string good = EncodeFingerprints({Of(1, 'a', 16), Of(2, 'b', 16)});
  // At 21 bytes the first fingerprint ends the data: that is well-formed.
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_EQ(DecodeFingerprints(good.substr(0, size)).ok(), size == 21) << size;
  }
  EXPECT_EQ(ReasonOf(DecodeFingerprints(good + "x").status()), Reason::kRecordDamaged);
  EXPECT_EQ(DecodeFingerprints(good + good).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_FALSE(DecodeFingerprints(std::string("\0\0\0\x01\x02xy", 7)).ok());
}

TEST(FingerprintTest, ProtoRoundTrip) {
  const v1::Fingerprint proto = ToProto(Of(3, 'z'));
  EXPECT_EQ(proto.version(), 3u);
  EXPECT_EQ(FromProto(proto), Of(3, 'z'));
}

Fingerprint UnderKey(std::uint32_t version, std::uint32_t key_id, char digest) {
  return {version, std::string(32, digest), key_id};
}

TEST(KeyedFingerprintTest, KeysHaveNothingInCommon) {
  const std::vector<Fingerprint> stored = {UnderKey(1, 7, 'a')};
  EXPECT_EQ(CompareFingerprints(stored, {UnderKey(1, 7, 'a')}), FingerprintMatch::kSame);
  EXPECT_EQ(CompareFingerprints(stored, {UnderKey(1, 7, 'b')}), FingerprintMatch::kDifferent);
  EXPECT_EQ(CompareFingerprints(stored, {UnderKey(1, 8, 'b')}), FingerprintMatch::kNothingInCommon);
  EXPECT_EQ(CompareFingerprints(stored, {UnderKey(1, 0, 'a')}), FingerprintMatch::kNothingInCommon);
  EXPECT_FALSE(UnderKey(1, 7, 'a') == UnderKey(1, 8, 'a'));
}

TEST(KeyedFingerprintTest, IsStoredWithItsKey) {
  const std::vector<Fingerprint> prints = {UnderKey(1, 0xFFFFFFFF, 'a'), UnderKey(2, 0, 'b'),
                                           UnderKey(0x80000001, 5, 'c')};
  const std::string bytes = EncodeFingerprints(prints);
  EXPECT_EQ(DecodeFingerprints(bytes).value(), prints);
  for (std::size_t size = 1; size < bytes.size(); ++size) {
    const auto cut = DecodeFingerprints(bytes.substr(0, size));
    EXPECT_TRUE(!cut.ok() || cut->size() < prints.size()) << size;
  }
  // No key is written in one way only.
  std::string no_key = EncodeFingerprints({UnderKey(1, 1, 'a')});
  no_key[8] = '\0';
  EXPECT_EQ(ReasonOf(DecodeFingerprints(no_key).status()), Reason::kRecordDamaged);
}

// The wire refuses it, and older versions stored it.
TEST(KeyedFingerprintTest, OneVersionUnderSeveralKeysIsRead) {
  const std::vector<Fingerprint> prints = {UnderKey(1, 0, 'a'), UnderKey(1, 7, 'b'),
                                           UnderKey(1, 8, 'c')};
  EXPECT_EQ(DecodeFingerprints(EncodeFingerprints(prints)).value(), prints);
  EXPECT_EQ(
      ReasonOf(DecodeFingerprints(EncodeFingerprints({UnderKey(1, 7, 'a'), UnderKey(1, 7, 'b')}))
                   .status()),
      Reason::kRecordDamaged);
}

TEST(KeyedFingerprintTest, OneVersionIsSentOnceWithAKeyOrWithout) {
  const std::vector<Fingerprint> distinct = {UnderKey(1, 7, 'a'), UnderKey(2, 0, 'b'),
                                             UnderKey(3, 8, 'c'), UnderKey(0x80000001, 0, 'd')};
  const std::vector<std::vector<Fingerprint>> repeated = {
      {UnderKey(1, 0, 'a'), UnderKey(1, 7, 'b')},
      {UnderKey(1, 7, 'a'), UnderKey(1, 0, 'b')},
      {UnderKey(2, 7, 'a'), UnderKey(2, 8, 'a')}};
  const auto on_the_wire = [](const std::vector<Fingerprint>& prints) {
    google::protobuf::RepeatedPtrField<v1::Fingerprint> wire;
    for (const Fingerprint& print : prints) *wire.Add() = ToProto(print);
    return wire;
  };
  EXPECT_TRUE(ValidateWireFingerprints(on_the_wire(distinct)).ok());
  for (const std::vector<Fingerprint>& prints : repeated) {
    const absl::Status refused = ValidateWireFingerprints(on_the_wire(prints));
    EXPECT_EQ(ReasonOf(refused), Reason::kRequestInvalid);
    ASSERT_EQ(DetailsOf(refused).violations.size(), 1U) << refused;
    EXPECT_EQ(DetailsOf(refused).violations[0].field, "fingerprints[1].version");
    EXPECT_EQ(refused, ValidateFingerprints(prints));
  }
}

TEST(KeyedFingerprintTest, IsSentWithItsKey) {
  const Fingerprint keyed = UnderKey(1, 0x01020304, 'a');
  const v1::Fingerprint sent = ToProto(keyed);
  EXPECT_EQ(sent.version(), 0x80000001);
  EXPECT_EQ(sent.digest(), std::string("\1\2\3\4") + std::string(32, 'a'));
  EXPECT_TRUE(FromProto(sent) == keyed);
  google::protobuf::RepeatedPtrField<v1::Fingerprint> wire;
  *wire.Add() = sent;
  EXPECT_TRUE(ValidateWireFingerprints(wire).ok());
  // An application's own version may be as high.
  v1::Fingerprint own;
  own.set_version(0x80000001);
  own.set_digest(std::string(32, 'a'));
  EXPECT_TRUE(FromProto(own) == UnderKey(0x80000001, 0, 'a'));
}

}  // namespace
}  // namespace idempotency::internal
