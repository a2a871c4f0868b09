#include "interceptors/server/connection/reserved_request.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace idempotency::internal {
namespace {

v1::RecordKey Key(const std::string& name_space, const std::string& scope,
                  const std::string& operation, const std::string& key) {
  v1::RecordKey record_key;
  record_key.set_namespace_(name_space);
  record_key.set_scope(scope);
  record_key.set_operation(operation);
  record_key.set_key(key);
  return record_key;
}

ReservedRequest::Fingerprints Prints(const std::vector<std::pair<int, std::string>>& versions) {
  ReservedRequest::Fingerprints fingerprints;
  for (const auto& [version, digest] : versions) {
    fingerprints.Add()->set_version(version);
    fingerprints.rbegin()->set_digest(digest);
  }
  return fingerprints;
}

TEST(ReservedRequestTest, HasItsOwnKeyAndNoOther) {
  // Texts that are equal in a row, empty ones, and those that look like a length.
  const std::vector<v1::RecordKey> keys = {
      Key("n", "s", "o", "k"),  Key("ns", "", "o", "k"),
      Key("", "ns", "o", "k"),  Key("n", "", "so", "k"),
      Key("n", "s", "o", "kk"), Key("", "", "", "nsok"),
      Key("", "", "", ""),      Key(std::string(4, '\0'), "", "", "")};
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const ReservedRequest request(keys[i], Prints({{1, "digest"}}));
    EXPECT_EQ(request.hash(), ReservedRequest::HashOf(keys[i]));
    for (std::size_t j = 0; j < keys.size(); ++j) {
      EXPECT_EQ(request.HasKey(keys[j]), i == j) << i << " " << j;
      EXPECT_EQ(request.HasSameKey(ReservedRequest(keys[j], Prints({{2, "x"}}))), i == j);
    }
  }
}

TEST(ReservedRequestTest, HasItsOwnFingerprintsAndNoOthers) {
  const std::vector<ReservedRequest::Fingerprints> all = {
      Prints({}),
      Prints({{1, ""}}),
      Prints({{1, "digest"}}),
      Prints({{2, "digest"}}),
      Prints({{1, "diges"}}),
      Prints({{1, "digest"}, {2, "digest"}}),
      Prints({{2, "digest"}, {1, "digest"}}),
      Prints({{1, "digest"}, {2, "other"}}),
  };
  for (std::size_t i = 0; i < all.size(); ++i) {
    const ReservedRequest request(Key("n", "s", "o", "k"), all[i]);
    for (std::size_t j = 0; j < all.size(); ++j) {
      EXPECT_EQ(request.HasFingerprints(all[j]), i == j) << i << " " << j;
    }
  }
}

}  // namespace
}  // namespace idempotency::internal
