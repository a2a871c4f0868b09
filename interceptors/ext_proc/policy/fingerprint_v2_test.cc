// Fingerprint version 2, against the vectors that every implementation shares: records hold it, so
// a digest that changes would refuse each retry across an upgrade.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/escaping.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"

#include "interceptors/ext_proc/policy/call_identity.h"
#include "interceptors/ext_proc/request/exact_fingerprint.h"

namespace idempotency::internal {
namespace {

struct Vector {
  std::string name;
  // Of a gRPC call, whose message the body is; "" for a request of HTTP.
  std::string method;
  HttpMessage request;
  GuardedRoute route;
  std::vector<std::string> parts;
  std::string digest;
};

void PrintTo(const Vector& vector, std::ostream* out) { *out << vector.name; }

std::vector<Vector> ReadVectors() {
  std::ifstream file(IDEMPOTENCY_VECTORS);
  std::stringstream text;
  text << file.rdbuf();
  google::protobuf::Struct document;
  EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(text.str(), &document).ok());
  std::vector<Vector> vectors;
  for (const auto& value : document.fields().at("vectors").list_value().values()) {
    const auto& fields = value.struct_value().fields();
    const auto find = [&](const char* name) -> const google::protobuf::Value& {
      const auto field = fields.find(name);
      return field == fields.end() ? google::protobuf::Value::default_instance() : field->second;
    };
    Vector& vector = vectors.emplace_back();
    vector.name = find("name").string_value();
    vector.method = find("method").string_value();
    vector.request.body =
        absl::HexStringToBytes(find(vector.method.empty() ? "body" : "message").string_value());
    for (const auto& header : find("headers").list_value().values()) {
      const auto& pair = header.list_value();
      vector.request.headers.Add(pair.values(0).string_value(), pair.values(1).string_value());
    }
    for (const auto& name : find("fingerprint_metadata").list_value().values()) {
      vector.route.policy.fingerprint_metadata.push_back(name.string_value());
    }
    for (const auto& part : find("parts").list_value().values()) {
      vector.parts.push_back(absl::HexStringToBytes(part.string_value()));
    }
    vector.digest = find("digest").string_value();
  }
  return vectors;
}

class FingerprintV2Test : public ::testing::TestWithParam<Vector> {};

INSTANTIATE_TEST_SUITE_P(Vectors, FingerprintV2Test, ::testing::ValuesIn(ReadVectors()),
                         [](const auto& vector) { return vector.param.name; });

TEST_P(FingerprintV2Test, IsThatOfTheParts) {
  const std::vector<std::string_view> parts(GetParam().parts.begin(), GetParam().parts.end());
  const Fingerprint fingerprint = ExactFingerprint(parts);
  EXPECT_EQ(fingerprint.version, 2u);
  EXPECT_EQ(absl::BytesToHexString(fingerprint.digest), GetParam().digest);
}

TEST_P(FingerprintV2Test, IsThatOfTheRequest) {
  const Vector& vector = GetParam();
  std::vector<Fingerprint> fingerprints;
  if (vector.method.empty()) {
    fingerprints = HttpFingerprints(vector.route, vector.request);
  } else {
    GrpcCall call;
    call.bytes = vector.request.body;
    fingerprints =
        GrpcFingerprints(vector.route, vector.method, vector.request.headers, call).value();
  }
  ASSERT_EQ(fingerprints.size(), 1u);
  EXPECT_EQ(fingerprints[0].version, 2u);
  EXPECT_EQ(absl::BytesToHexString(fingerprints[0].digest), vector.digest);
}

}  // namespace
}  // namespace idempotency::internal
