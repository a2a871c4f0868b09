#include "grpc_idempotency/fingerprint_algorithm.h"

#include <gtest/gtest.h>

#include <set>

#include "testdata/rules.pb.h"

namespace idempotency::internal {
namespace {

using Metadata = FingerprintInput::Metadata;

std::string DigestWith(Metadata metadata) {
  return FingerprintV1({"/m", testdata::Order(), {}, std::move(metadata)}).digest;
}

FingerprintAlgorithm Constant(std::uint32_t version, char digit) {
  return {version, [digit](const FingerprintInput&) { return std::string(16, digit); }};
}

TEST(FingerprintMetadataTest, NoneIsAsIfThereWereNoRule) {
  EXPECT_EQ(DigestWith({}), FingerprintV1({"/m", testdata::Order()}).digest);
}

TEST(FingerprintMetadataTest, EveryDifferenceCounts) {
  const std::vector<Metadata> different = {
      {},
      {{"a", {""}}},
      {{"a", {"", ""}}},
      {{"a", {"x"}}},
      {{"a", {"x", "y"}}},
      {{"a", {"y", "x"}}},
      {{"a", {"xy"}}},
      {{"a", {"x,y"}}},
      {{"ax", {""}}},
      {{"a", {""}}, {"x", {""}}},
      {{"a", {"x"}}, {"b", {"y"}}},
      {{"a", {"y"}}, {"b", {"x"}}},
      {{"a-bin", {std::string_view("\0\0", 2)}}},
      {{"a-bin", {std::string_view("\0", 1)}}},
  };
  std::set<std::string> digests;
  for (const Metadata& metadata : different) digests.insert(DigestWith(metadata));
  EXPECT_EQ(digests.size(), different.size());
}

TEST(FingerprintAlgorithmsTest, OneFingerprintEach) {
  const testdata::Order order;
  const std::vector<FingerprintAlgorithm> algorithms = {Constant(7, 'a'),
                                                        FingerprintAlgorithm::V1()};
  const std::vector<Fingerprint> fingerprints = ComputeFingerprints(algorithms, {"/m", order});
  ASSERT_EQ(fingerprints.size(), 2u);
  EXPECT_EQ(fingerprints[0], (Fingerprint{7, std::string(16, 'a')}));
  EXPECT_EQ(fingerprints[1], FingerprintV1({"/m", order}));
}

TEST(FingerprintAlgorithmsTest, SetsThatCannotWork) {
  const auto valid = [](std::vector<FingerprintAlgorithm> algorithms) {
    return ValidateFingerprintAlgorithms(algorithms).ok();
  };
  EXPECT_TRUE(valid({FingerprintAlgorithm::V1()}));
  EXPECT_TRUE(valid({Constant(4, 'a'), Constant(3, 'a'), Constant(2, 'a'), Constant(1, 'a')}));
  EXPECT_FALSE(valid({}));
  EXPECT_FALSE(valid({Constant(0, 'a')}));
  EXPECT_FALSE(valid({Constant(2, 'a'), Constant(2, 'b')}));
  EXPECT_FALSE(valid({FingerprintAlgorithm{2, nullptr}}));
  EXPECT_FALSE(valid(
      {Constant(1, 'a'), Constant(2, 'a'), Constant(3, 'a'), Constant(4, 'a'), Constant(5, 'a')}));
}

}  // namespace
}  // namespace idempotency::internal
