#include "interceptors/server/request/request_identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/fingerprint_algorithm.h"
#include "testdata/till.pb.h"
#include "tests/support/context_peers.h"

namespace idempotency::internal {
namespace {

using testdata::ChargeRequest;
using testing::HasSubstr;
using testing::Not;

constexpr char kCharge[] = "/idempotency.testdata.Till/Charge";
constexpr char kUuid4[] = "2f5ce8ab-7d3f-4b5a-9d0c-2b1a5d3e4f60";
constexpr char kUuid7[] = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f";

class RequestIdentityTest : public testing::Test {
 protected:
  using Metadata = std::multimap<std::string, std::string>;

  RequestIdentity Make() const {
    const auto* till = ChargeRequest::descriptor()->file()->service(0);
    return RequestIdentity::Make(*till->FindMethodByName("Charge"), policy_, options_).value();
  }

  absl::StatusOr<std::string> Key(const Metadata& metadata) const {
    grpc::ServerContext context;
    grpc::testing::ServerContextTestSpouse spouse(&context);
    for (const auto& [name, value] : metadata) spouse.AddClientMetadata(name, value);
    return Make().KeyOf(context, request_);
  }

  absl::StatusOr<std::vector<Fingerprint>> Fingerprints(const Metadata& metadata = {}) const {
    grpc::ServerContext context;
    grpc::testing::ServerContextTestSpouse spouse(&context);
    for (const auto& [name, value] : metadata) spouse.AddClientMetadata(name, value);
    return Make().FingerprintsOf(context, request_);
  }

  MethodConfig& config() { return options_.methods[kCharge]; }

  MethodPolicy policy_;
  GuardOptions options_;
  ChargeRequest request_;
};

TEST_F(RequestIdentityTest, TheFieldCountsOnlyIfThePolicyNamesIt) {
  request_.set_request_id("order-1");
  EXPECT_EQ(ReasonOf(Key({}).status()), Reason::kKeyMissing);
  EXPECT_EQ(Key({{"idempotency-key", "order-2"}}).value(), "order-2");
  policy_.key_field = "request_id";
  EXPECT_EQ(Key({}).value(), "order-1");
  EXPECT_EQ(Key({{"idempotency-key", "\"order-1\""}}).value(), "order-1");
  EXPECT_EQ(ReasonOf(Key({{"idempotency-key", "order-2"}}).status()), Reason::kKeyInvalid);
}

TEST_F(RequestIdentityTest, TheKeyIsNotInTheFingerprintWhereverItStands) {
  policy_.key_field = "envelope.request_id";
  const auto without = Fingerprints().value();
  request_.mutable_envelope()->set_request_id("order-1");
  EXPECT_EQ(Fingerprints().value(), without);
  request_.mutable_envelope()->set_sender("bob");
  EXPECT_NE(Fingerprints().value(), without);
}

TEST_F(RequestIdentityTest, ValidatorsRefuseWithTheirAdvice) {
  config().key_validator = UuidKeys();
  EXPECT_EQ(Key({{"idempotency-key", kUuid4}}).value(), kUuid4);
  EXPECT_EQ(Key({{"idempotency-key", "017F22E2-79B0-7CC3-98C4-DC0C0C07398F"}}).value(), kUuid7);
  for (const std::string bad : {"order-1", "00000000-0000-0000-0000-000000000000"}) {
    const absl::Status status = Key({{"idempotency-key", bad}}).status();
    EXPECT_EQ(ReasonOf(status), Reason::kKeyInvalid);
    EXPECT_THAT(std::string(status.message()), HasSubstr("accepts only UUIDs"));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr(bad)));
  }
  EXPECT_EQ(ReasonOf(Key({}).status()), Reason::kKeyMissing);
  config().key_validator = Uuidv7Keys();
  EXPECT_EQ(Key({{"idempotency-key", kUuid7}}).value(), kUuid7);
  EXPECT_EQ(ReasonOf(Key({{"idempotency-key", kUuid4}}).status()), Reason::kKeyInvalid);
}

TEST_F(RequestIdentityTest, AValidatorThatThrowsRefusesTheCall) {
  config().key_validator = [](std::string_view) -> absl::Status {
    throw std::runtime_error("out of order");
  };
  const absl::Status status = Key({{"idempotency-key", kUuid4}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("out of order")));
}

TEST_F(RequestIdentityTest, NormalisedRequestsAreComparedAndTheRequestStaysAsItIs) {
  config().normaliser = NormaliserFor<ChargeRequest>([](ChargeRequest& charge) {
    if (charge.account().empty()) charge.set_account("house");
    charge.set_amount_cents(charge.amount_cents() / 100 * 100);
    return absl::OkStatus();
  });
  request_.set_amount_cents(1234);
  const auto first = Fingerprints().value();
  EXPECT_EQ(request_.account(), "");
  EXPECT_EQ(request_.amount_cents(), 1234);
  request_.set_account("house");
  request_.set_amount_cents(1200);
  EXPECT_EQ(Fingerprints().value(), first);
  EXPECT_EQ(first.front(), FingerprintV1({kCharge, request_}));
  request_.set_amount_cents(1300);
  EXPECT_NE(Fingerprints().value(), first);
}

TEST_F(RequestIdentityTest, ANormalisersErrorIsTheAnswer) {
  config().normaliser = NormaliserFor<ChargeRequest>([](ChargeRequest& charge) {
    if (charge.amount_cents() < 0) return absl::InvalidArgumentError("a charge is not negative");
    throw std::runtime_error("out of order");
  });
  request_.set_amount_cents(-1);
  EXPECT_EQ(Fingerprints().status(), absl::InvalidArgumentError("a charge is not negative"));
  request_.set_amount_cents(1);
  EXPECT_EQ(Fingerprints().status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(Fingerprints().status().message()), Not(HasSubstr("out of order")));
}

TEST_F(RequestIdentityTest, ANormaliserOfAnotherMessageIsFoundOut) {
  config().normaliser =
      NormaliserFor<testdata::Envelope>([](testdata::Envelope&) { return absl::OkStatus(); });
  const absl::Status status = Fingerprints().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("idempotency.testdata.Envelope"));
}

TEST_F(RequestIdentityTest, OnlyNamedMetadataBelongsToTheRequest) {
  const auto plain = Fingerprints().value();
  EXPECT_EQ(Fingerprints({{"x-version", "1"}}).value(), plain);
  policy_.fingerprint_metadata = {"x-version", "x-proof-bin"};
  EXPECT_EQ(Fingerprints({{"x-other", "1"}}).value(), plain);
  const auto one = Fingerprints({{"x-version", "1"}}).value();
  EXPECT_NE(one, plain);
  EXPECT_NE(Fingerprints({{"x-version", "2"}}).value(), one);
  EXPECT_NE(Fingerprints({{"x-version", ""}}).value(), plain);
  EXPECT_NE(Fingerprints({{"x-version", "1"}, {"x-version", "1"}}).value(), one);
  EXPECT_NE(Fingerprints({{"x-version", "1"}, {"x-proof-bin", "\x01"}}).value(), one);
  const FingerprintInput input{kCharge, request_, {}, {{"x-version", {"1"}}}};
  EXPECT_EQ(one.front(), FingerprintV1(input));
}

TEST_F(RequestIdentityTest, EveryAlgorithmIsSent) {
  options_.fingerprint_algorithms.push_back(
      {1000, [](const FingerprintInput& input) { return std::string(16, input.method.back()); }});
  const auto both = Fingerprints().value();
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[0], FingerprintV1({kCharge, request_}));
  EXPECT_EQ(both[1], (Fingerprint{1000, std::string(16, 'e')}));
}

TEST_F(RequestIdentityTest, AnAlgorithmThatFailsRefusesTheCall) {
  options_.fingerprint_algorithms = {{1000, [](const FingerprintInput&) { return "short"; }}};
  EXPECT_EQ(Fingerprints().status().code(), absl::StatusCode::kInternal);
  options_.fingerprint_algorithms = {
      {1000, [](const FingerprintInput&) -> std::string { throw std::runtime_error("no"); }}};
  EXPECT_EQ(Fingerprints().status().code(), absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace idempotency::internal
