#include "interceptors/ext_proc/service/guarded_exchange.h"

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.pb.h"
#include "gtest/gtest.h"

#include "client/testing/fake_connection.h"
#include "core/exchange_limits.h"
#include "core/field_memory.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"
#include "interceptors/ext_proc/front/grpc_wire.h"
#include "interceptors/ext_proc/front/http_front.h"
#include "interceptors/ext_proc/service/exchange_guard.h"
#include "interceptors/server/reservation/reservation_client.h"
#include "interceptors/server/testing/fake_scheduler.h"

namespace idempotency::internal {
namespace {

using google::protobuf::FieldDescriptorProto;
using ::testing::HasSubstr;
using Response = Exchange::Response;

class CountedEvents final : public ProcessorEvents {
 public:
  void Ended(ExchangeResult result) override {
    refused_ += result == ExchangeResult::kRefused;
    unconfigured_ += result == ExchangeResult::kUnconfigured;
    unscoped_ += result == ExchangeResult::kUnscoped;
    not_recorded_ += result == ExchangeResult::kNotRecorded;
  }
  void Misconfigured(absl::string_view /*what*/) override { ++misconfigured_; }
  void Holds(std::size_t /*exchanges*/, std::size_t bytes) override { held_ = bytes; }

  int refused_ = 0;
  int unconfigured_ = 0;
  int unscoped_ = 0;
  int not_recorded_ = 0;
  int misconfigured_ = 0;
  std::size_t held_ = 0;
};

// `repeated Item items = 1` with `string name = 1`.
std::string ShopDescriptors() {
  google::protobuf::FileDescriptorSet set;
  auto& file = *set.add_file();
  file.set_name("shop.proto");
  file.set_package("shop.v1");
  auto& item = *file.add_message_type();
  item.set_name("Item");
  auto& name = *item.add_field();
  name.set_name("name");
  name.set_number(1);
  name.set_type(FieldDescriptorProto::TYPE_STRING);
  name.set_label(FieldDescriptorProto::LABEL_OPTIONAL);
  auto& order = *file.add_message_type();
  order.set_name("Basket");
  auto& items = *order.add_field();
  items.set_name("items");
  items.set_number(1);
  items.set_type(FieldDescriptorProto::TYPE_MESSAGE);
  items.set_type_name(".shop.v1.Item");
  items.set_label(FieldDescriptorProto::LABEL_REPEATED);
  auto& service = *file.add_service();
  service.set_name("Shop");
  auto& method = *service.add_method();
  method.set_name("Order");
  method.set_input_type("Basket");
  method.set_output_type("Basket");
  return set.SerializeAsString();
}

std::shared_ptr<const ProcessorSettings> Settings() {
  ProcessorConfig config;
  config.name_space = "shop";
  config.scope = SharedScopeName{"everyone"};
  config.on_unknown_outcome = MethodPolicy::OnUnknownOutcome::kRequireRecovery;
  config.descriptor_sets.push_back({"shop.binpb", ShopDescriptors()});
  config.http_routes.push_back({{"POST"}, "/orders", std::nullopt});
  return ProcessorSettings::Make(std::move(config)).value();
}

void Add(const std::string& key, const std::string& value, Exchange::Request& message) {
  auto& header = *message.mutable_request_headers()->mutable_headers()->add_headers();
  header.set_key(key);
  header.set_raw_value(value);
}

Exchange::Request Headers(const std::string& path, const std::string& content_type) {
  Exchange::Request message;
  Add(":method", "POST", message);
  Add(":path", path, message);
  Add("content-type", content_type, message);
  Add("idempotency-key", "key-1", message);
  return message;
}

Exchange::Request Body(std::string bytes) {
  Exchange::Request message;
  message.mutable_request_body()->set_body(std::move(bytes));
  message.mutable_request_body()->set_end_of_stream(true);
  return message;
}

std::string HeaderOf(const Response& response, const std::string& name) {
  for (const auto& option : response.immediate_response().headers().set_headers()) {
    if (option.header().key() == name) return option.header().raw_value();
  }
  return "";
}

// Two bytes on the wire for each.
std::string BasketOfEmptyItems(std::size_t items) {
  std::string bytes;
  for (std::size_t i = 0; i < items; ++i) bytes += std::string("\x0a\x00", 2);
  return bytes;
}

class GuardedExchangeTest : public ::testing::Test {
 protected:
  // Whether an order with this message is admitted; if not, `refusal_` is the answer to it.
  bool IsAdmitted(const std::string& message) {
    return IsAdmitted(Headers("/shop.v1.Shop/Order", "application/grpc"), message);
  }
  bool IsAdmitted(const Exchange::Request& headers, const std::string& message) {
    std::string body;
    AppendGrpcMessage(message, body);
    GuardedExchange exchange(Settings(), bounds_, events_);
    exchange.OnMessage(headers);
    exchange.OnMessage(Body(std::move(body)));
    refusal_ = exchange.TakeResponse().value_or(Response());
    return exchange.TakeTask().has_value();
  }

  CountedEvents events_;
  ExchangeBounds bounds_{{}, events_};
  Response refusal_;
};

TEST_F(GuardedExchangeTest, ARequestThatWouldTakeMuchMemoryIsRefused) {
  EXPECT_TRUE(IsAdmitted(BasketOfEmptyItems(1000)));
  // Two million messages, in the largest body.
  EXPECT_FALSE(IsAdmitted(BasketOfEmptyItems(limits::kMaxExchangeRequestBytes / 2 - 1000)));
  EXPECT_EQ(HeaderOf(refusal_, "grpc-status"), "3");
  EXPECT_THAT(HeaderOf(refusal_, "grpc-message"), HasSubstr("more fields"));
  EXPECT_EQ(events_.held_, 0U);
}

// As with a guard in the service.
TEST_F(GuardedExchangeTest, EqualKeysOfOneCallCountAsOne) {
  Exchange::Request headers = Headers("/shop.v1.Shop/Order", "application/grpc");
  Add("idempotency-key", "key-1", headers);
  EXPECT_TRUE(IsAdmitted(headers, "")) << HeaderOf(refusal_, "grpc-message");
  Add("idempotency-key", "key-2", headers);
  EXPECT_FALSE(IsAdmitted(headers, ""));
  EXPECT_EQ(HeaderOf(refusal_, "grpc-status"), "3");
}

TEST_F(GuardedExchangeTest, HttpHasOneHeader) {
  Exchange::Request headers = Headers("/orders", "application/json");
  EXPECT_TRUE(IsAdmitted(headers, ""));
  Add("idempotency-key", "key-1", headers);
  EXPECT_FALSE(IsAdmitted(headers, ""));
}

constexpr char kUuid4[] = "2f5ce8ab-7d3f-4b5a-9d0c-2b1a5d3e4f60";
constexpr char kUuid7[] = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f";

// As with Uuidv7Keys() of a guard in the service: the text is that of request_identity_test.
TEST_F(GuardedExchangeTest, AKeyOfAnotherFormatIsRefused) {
  ProcessorConfig config;
  config.name_space = "shop";
  config.scope = SharedScopeName{"everyone"};
  config.on_unknown_outcome = MethodPolicy::OnUnknownOutcome::kRequireRecovery;
  config.grpc_methods.push_back(
      {"shop.v1.Shop/Order", std::nullopt, "", ProcessorConfig::KeyFormat::kUuidv7});
  v1::Policy optional;
  optional.set_key(v1::Policy::KEY_OPTIONAL);
  config.http_routes.push_back(
      {{"POST"}, "/orders", optional, "", ProcessorConfig::KeyFormat::kUuidv7});
  const auto settings = ProcessorSettings::Make(std::move(config)).value();
  // Whether it is held, and the answer to its headers.
  const auto answer_to = [&](const std::string& path, const std::string& type,
                             const std::string& key) -> std::optional<Response> {
    Exchange::Request headers;
    Add(":method", "POST", headers);
    Add(":path", path, headers);
    Add("content-type", type, headers);
    if (!key.empty()) Add("idempotency-key", key, headers);
    GuardedExchange exchange(settings, bounds_, events_);
    exchange.OnMessage(headers);
    return exchange.TakeResponse();
  };
  const std::string text =
      "the key is refused: this method accepts only UUIDs of version 7, in their 36-character form";
  for (const std::string bad : {kUuid4, "order-1"}) {
    const Response grpc =
        answer_to("/shop.v1.Shop/Order", "application/grpc", bad).value_or(Response());
    EXPECT_EQ(HeaderOf(grpc, "grpc-status"), "3") << grpc.ShortDebugString();
    EXPECT_THAT(HeaderOf(grpc, "grpc-message"), HasSubstr(text));
    const Response http = answer_to("/orders", "application/json", bad).value_or(Response());
    EXPECT_EQ(http.immediate_response().status().code(), 400) << http.ShortDebugString();
    EXPECT_THAT(http.immediate_response().body(), HasSubstr(text));
    EXPECT_THAT(http.immediate_response().body(), HasSubstr("\"KEY_INVALID\""));
  }
  EXPECT_EQ(events_.unconfigured_, 0);
  EXPECT_FALSE(answer_to("/shop.v1.Shop/Order", "application/grpc", kUuid7).has_value());
  EXPECT_FALSE(answer_to("/orders", "application/json", absl::StrCat("\"", kUuid7, "\"")));
  const auto without_key = answer_to("/orders", "application/json", "");
  EXPECT_TRUE(without_key.has_value() && without_key->has_request_headers());
}

// Which is known only once the request has arrived.
TEST_F(GuardedExchangeTest, AKeyOfAnotherFormatInTheRequestIsRefused) {
  ProcessorConfig config;
  config.name_space = "shop";
  config.scope = SharedScopeName{"everyone"};
  config.on_unknown_outcome = MethodPolicy::OnUnknownOutcome::kRequireRecovery;
  google::protobuf::FileDescriptorSet set;
  set.ParseFromString(ShopDescriptors());
  auto& id = *set.mutable_file(0)->mutable_message_type(1)->add_field();
  id.set_name("order_id");
  id.set_number(2);
  id.set_type(FieldDescriptorProto::TYPE_STRING);
  id.set_label(FieldDescriptorProto::LABEL_OPTIONAL);
  config.descriptor_sets.push_back({"shop.binpb", set.SerializeAsString()});
  v1::Policy policy;
  policy.set_key_field("order_id");
  config.grpc_methods.push_back(
      {"shop.v1.Shop/Order", policy, "", ProcessorConfig::KeyFormat::kUuidv7});
  const auto settings = ProcessorSettings::Make(std::move(config)).value();
  const auto is_admitted = [&](const std::string& key) {
    Exchange::Request headers;
    Add(":method", "POST", headers);
    Add(":path", "/shop.v1.Shop/Order", headers);
    Add("content-type", "application/grpc", headers);
    std::string body;
    AppendGrpcMessage(absl::StrCat("\x12", std::string(1, static_cast<char>(key.size())), key),
                      body);
    GuardedExchange exchange(settings, bounds_, events_);
    exchange.OnMessage(headers);
    exchange.OnMessage(Body(std::move(body)));
    refusal_ = exchange.TakeResponse().value_or(Response());
    return exchange.TakeTask().has_value();
  };
  EXPECT_TRUE(is_admitted(kUuid7)) << HeaderOf(refusal_, "grpc-message");
  EXPECT_FALSE(is_admitted(kUuid4));
  EXPECT_EQ(HeaderOf(refusal_, "grpc-status"), "3");
  EXPECT_THAT(HeaderOf(refusal_, "grpc-message"), HasSubstr("only UUIDs of version 7"));
}

TEST_F(GuardedExchangeTest, ALargeRequestOfUsualFieldsIsAdmitted) {
  std::string basket;
  const std::string item = "\x0a\x1e" + ("\x0a\x1c" + std::string(28, 'n'));
  while (basket.size() + item.size() + 1000 < limits::kMaxExchangeRequestBytes) basket += item;
  EXPECT_TRUE(IsAdmitted(basket));
  EXPECT_EQ(events_.held_, 0U);
}

TEST_F(GuardedExchangeTest, FieldsCountWhileTheyAreParsed) {
  constexpr std::size_t kItems = 1000;
  constexpr std::size_t kHalf = 10 * kItems * kFieldBytes;
  const std::string basket = BasketOfEmptyItems(kItems);
  bounds_.SetLimits({/*exchanges=*/10, /*bytes=*/2 * kHalf});
  const ExchangeBounds::Held others{"others", ExchangeBounds::Held::Kind::kRequest, kHalf - 1000};
  bounds_.Hold({}, others);
  EXPECT_FALSE(IsAdmitted(basket));
  EXPECT_EQ(HeaderOf(refusal_, "grpc-status"), "8");
  EXPECT_THAT(HeaderOf(refusal_, "grpc-message"), HasSubstr("holds too many requests"));
  bounds_.Hold(others, {});
  EXPECT_EQ(events_.held_, 0U);
  EXPECT_TRUE(IsAdmitted(basket));
  EXPECT_EQ(events_.held_, 0U);
}

// More than their scope may ever hold, though less than 12 times the largest request: no retry
// would find room.
TEST_F(GuardedExchangeTest, FieldsThatNeverFindRoomAreRefusedForGood) {
  constexpr std::size_t kItems = 1000;
  const std::string basket = BasketOfEmptyItems(kItems);
  bounds_.SetLimits({/*exchanges=*/10, /*bytes=*/4 * kItems * kFieldBytes});
  EXPECT_FALSE(IsAdmitted(basket));
  EXPECT_EQ(HeaderOf(refusal_, "grpc-status"), "3");
  EXPECT_THAT(HeaderOf(refusal_, "grpc-message"), HasSubstr("more fields"));
  EXPECT_EQ(events_.held_, 0U);
}

// They are counted with the body, whatever that leaves.
TEST_F(GuardedExchangeTest, FieldsThatTakeNoMoreThanTheBodyAlwaysFindRoom) {
  const std::string name(10'000, 'n');
  const std::string item = "\x0a\x90\x4e" + name;
  const std::string basket = "\x0a\x93\x4e" + item;
  bounds_.SetLimits({/*exchanges=*/10, /*bytes=*/2 * basket.size()});
  EXPECT_TRUE(IsAdmitted(basket)) << HeaderOf(refusal_, "grpc-message");
}

// They hold places too: callers without a key must leave some for the others.
TEST_F(GuardedExchangeTest, ExchangesThatPassHaveAShareOfThePlaces) {
  ProcessorConfig config;
  config.name_space = "shop";
  config.scope = SharedScopeName{"everyone"};
  v1::Policy policy;
  policy.set_key(v1::Policy::KEY_OPTIONAL);
  config.on_unknown_outcome = MethodPolicy::OnUnknownOutcome::kRequireRecovery;
  config.http_routes.push_back({{"POST"}, "/orders", policy});
  const auto settings = ProcessorSettings::Make(std::move(config)).value();
  bounds_.SetLimits({/*exchanges=*/10, /*bytes=*/1024 * 1024});
  Exchange::Request without_key;
  Add(":method", "POST", without_key);
  Add(":path", "/orders", without_key);
  std::vector<std::unique_ptr<GuardedExchange>> passing;
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(bounds_.Enter());
    GuardedExchange& exchange =
        *passing.emplace_back(std::make_unique<GuardedExchange>(settings, bounds_, events_));
    exchange.OnMessage(without_key);
    EXPECT_TRUE(exchange.TakeResponse().value_or(Response()).has_request_headers()) << i;
  }
  ASSERT_TRUE(bounds_.Enter());
  GuardedExchange one_more(settings, bounds_, events_);
  one_more.OnMessage(without_key);
  const Response refusal = one_more.TakeResponse().value_or(Response());
  EXPECT_EQ(refusal.immediate_response().status().code(), 503) << refusal.ShortDebugString();
  EXPECT_THAT(refusal.immediate_response().body(), HasSubstr("calls without a key"));
  EXPECT_EQ(HeaderOf(refusal, "retry-after"), "1");

  ASSERT_TRUE(bounds_.Enter());
  GuardedExchange guarded(settings, bounds_, events_);
  guarded.OnMessage(Headers("/orders", "application/json"));
  guarded.OnMessage(Body("{}"));
  EXPECT_TRUE(guarded.TakeTask().has_value());
}

// Its key would have been in the message: it keeps the place that it has.
TEST_F(GuardedExchangeTest, AnExchangeThatPassesAfterItsMessageKeepsItsPlace) {
  ProcessorConfig config;
  config.name_space = "shop";
  config.scope = SharedScopeName{"everyone"};
  config.on_unknown_outcome = MethodPolicy::OnUnknownOutcome::kRequireRecovery;
  google::protobuf::FileDescriptorSet set;
  set.ParseFromString(ShopDescriptors());
  auto& basket = *set.mutable_file(0)->mutable_message_type(1);
  auto& id = *basket.add_field();
  id.set_name("order_id");
  id.set_number(2);
  id.set_type(FieldDescriptorProto::TYPE_STRING);
  id.set_label(FieldDescriptorProto::LABEL_OPTIONAL);
  config.descriptor_sets.push_back({"shop.binpb", set.SerializeAsString()});
  v1::Policy policy;
  policy.set_key(v1::Policy::KEY_OPTIONAL);
  policy.set_key_field("order_id");
  config.grpc_methods.push_back({"shop.v1.Shop/Order", policy});
  const auto settings = ProcessorSettings::Make(std::move(config)).value();
  bounds_.SetLimits({/*exchanges=*/2, /*bytes=*/1024 * 1024});
  Exchange::Request without_key;
  Add(":method", "POST", without_key);
  Add(":path", "/shop.v1.Shop/Order", without_key);
  Add("content-type", "application/grpc", without_key);
  std::string body;
  AppendGrpcMessage("", body);
  ASSERT_TRUE(bounds_.Enter());
  GuardedExchange passing(settings, bounds_, events_);
  passing.OnMessage(without_key);
  passing.OnMessage(Body(body));
  ASSERT_TRUE(passing.TakeResponse().value_or(Response()).has_request_headers());
  ASSERT_TRUE(bounds_.Enter());
  EXPECT_FALSE(bounds_.TryEnterScope("everyone").has_value());
}

// The same key and message under the former and the new name of a method.
TEST_F(GuardedExchangeTest, MethodsOfOneOperationHaveOneRecord) {
  ProcessorConfig config;
  config.name_space = "shop";
  config.scope = SharedScopeName{"everyone"};
  config.on_unknown_outcome = MethodPolicy::OnUnknownOutcome::kRequireRecovery;
  config.grpc_methods.push_back({"shop.v1.Shop/Order", std::nullopt, "/shop.v0.Shop/Order"});
  config.grpc_methods.push_back({"shop.v0.Shop/*", std::nullopt});
  const auto settings = ProcessorSettings::Make(std::move(config)).value();
  const auto request_of = [&](const std::string& path) {
    GuardedExchange exchange(settings, bounds_, events_);
    std::string body;
    AppendGrpcMessage("apples", body);
    exchange.OnMessage(Headers(path, "application/grpc"));
    exchange.OnMessage(Body(std::move(body)));
    auto task = exchange.TakeTask();
    EXPECT_TRUE(task.has_value());
    return *std::get<GuardedExchange::Admit>(*std::move(task)).request;
  };
  const v1::ReserveRequest former = request_of("/shop.v0.Shop/Order");
  EXPECT_EQ(former.record_key().operation(), "/shop.v0.Shop/Order");
  EXPECT_EQ(request_of("/shop.v1.Shop/Order").ShortDebugString(), former.ShortDebugString());
}

TEST_F(GuardedExchangeTest, ListedHeadersOfAReplyAreNotCaptured) {
  ProcessorConfig config;
  config.name_space = "shop";
  config.on_unknown_outcome = MethodPolicy::OnUnknownOutcome::kRequireRecovery;
  config.http_routes.push_back({{"POST"}, "/orders", std::nullopt});
  config.unrecorded_headers = {"set-cookie"};
  const auto settings = ProcessorSettings::Make(std::move(config)).value();
  HttpMessage response;
  response.headers.Add(":status", "200");
  response.headers.Add("set-cookie", "a=1");
  EXPECT_THAT(settings->http_front.Capture(response, /*whole=*/true).ShortDebugString(),
              Not(HasSubstr("set-cookie")));
  EXPECT_THAT(settings->grpc_front.Capture(response, /*whole=*/true).ShortDebugString(),
              Not(HasSubstr("set-cookie")));
}

Exchange::Request WithMethod(const std::string& method, const std::string& path) {
  Exchange::Request request = Headers(path, "application/json");
  request.mutable_request_headers()->mutable_headers()->mutable_headers(0)->set_raw_value(method);
  return request;
}

// A critical alert counts the others, so a caller alone must not raise it.
TEST_F(GuardedExchangeTest, ARequestOfACallerIsNoFaultOfTheConfiguration) {
  const std::vector<Exchange::Request> requests = {
      Headers("/shop.v1.Shop/Order", "application/json"),
      Headers("/shop.v1.Shop/Order", "application/grpc-web"),
      Headers("/shop.v1.Shop/Order?x=1", "application/grpc"),
      Headers("/shop.v1.Shop/order", "application/grpc"),
      Headers("/shop.v1.Shop/Order/", "application/grpc"),
      Headers("/orders", "application/grpc"),
      Headers("/orders;a=b", "application/json"),
      WithMethod("post", "/orders"),
  };
  int sent = 0;
  for (const Exchange::Request& request : requests) {
    GuardedExchange exchange(Settings(), bounds_, events_);
    exchange.OnMessage(request);
    EXPECT_TRUE(exchange.TakeResponse().value_or(Response()).has_immediate_response());
    EXPECT_EQ(events_.refused_, ++sent) << request.ShortDebugString();
  }
  EXPECT_EQ(events_.unconfigured_, 0);
  EXPECT_EQ(events_.misconfigured_, 0);
}

TEST_F(GuardedExchangeTest, ARequestWithoutAnEntryIsUnconfigured) {
  int sent = 0;
  for (const Exchange::Request& request :
       {Headers("/shop.v1.Shop/Cancel", "application/grpc"),
        Headers("/refunds", "application/json"), WithMethod("PUT", "/orders")}) {
    GuardedExchange exchange(Settings(), bounds_, events_);
    exchange.OnMessage(request);
    EXPECT_TRUE(exchange.TakeResponse().value_or(Response()).has_immediate_response());
    EXPECT_EQ(events_.unconfigured_, ++sent) << request.ShortDebugString();
  }
  EXPECT_EQ(events_.refused_, 0);
  EXPECT_EQ(events_.misconfigured_, 0);
}

std::shared_ptr<const ProcessorSettings> SettingsWithScope(ScopeSource scope) {
  ProcessorConfig config;
  config.name_space = "shop";
  config.scope = std::move(scope);
  config.on_unknown_outcome = MethodPolicy::OnUnknownOutcome::kRequireRecovery;
  config.http_routes.push_back({{"POST"}, "/orders", std::nullopt});
  return ProcessorSettings::Make(std::move(config)).value();
}

// Only for lack of an entry: an alert takes many of them for a fault of the configuration.
TEST_F(GuardedExchangeTest, ARequestWithoutAKeyIsNotUnconfigured) {
  Exchange::Request request;
  Add(":method", "POST", request);
  Add(":path", "/orders", request);
  Add("content-type", "application/json", request);
  GuardedExchange exchange(SettingsWithScope(ScopeHeader{"x-tenant"}), bounds_, events_);
  exchange.OnMessage(request);
  EXPECT_TRUE(exchange.TakeResponse().value_or(Response()).has_immediate_response());
  EXPECT_EQ(events_.refused_, 1);
  EXPECT_EQ(events_.unconfigured_, 0);
}

void AddAttribute(const std::string& name, bool value, Exchange::Request& message) {
  (*(*message.mutable_attributes())["envoy.filters.http.ext_proc"].mutable_fields())[name]
      .set_bool_value(value);
}

TEST_F(GuardedExchangeTest, ACallerWithoutAScopeIsNoFaultOfTheConfiguration) {
  Exchange::Request no_certificate = Headers("/orders", "application/json");
  AddAttribute("connection.mtls", false, no_certificate);
  GuardedExchange by_peer(SettingsWithScope(PeerName::kUri), bounds_, events_);
  by_peer.OnMessage(no_certificate);
  EXPECT_EQ(events_.unscoped_, 1);
  GuardedExchange by_header(SettingsWithScope(ScopeHeader{"x-tenant"}), bounds_, events_);
  by_header.OnMessage(Headers("/orders", "application/json"));
  EXPECT_EQ(events_.unscoped_, 2);
  GuardedExchange by_claim(SettingsWithScope(ScopeMetadata{"jwt", {"sub"}}), bounds_, events_);
  by_claim.OnMessage(Headers("/orders", "application/json"));
  EXPECT_EQ(events_.unscoped_, 3);
  EXPECT_EQ(events_.unconfigured_, 0);
  EXPECT_EQ(events_.misconfigured_, 0);
}

Exchange::Request OfPeer(const std::string& uri, const std::string& user) {
  Exchange::Request request = Headers("/orders", "application/json");
  Add("x-user", user, request);
  auto& fields = *(*request.mutable_attributes())["envoy.filters.http.ext_proc"].mutable_fields();
  fields["connection.mtls"].set_bool_value(true);
  fields["connection.uri_san_peer_certificate"].set_string_value(uri);
  return request;
}

// Else one of its callers would seem to be a fault of the configuration.
TEST_F(GuardedExchangeTest, AValueThatNoScopeMayHaveIsTheCallersFault) {
  const auto settings =
      SettingsWithScope(CombinedScopeSource{{PeerName::kUri, ScopeHeader{"x-user"}}});
  for (const std::string& user : {std::string(256, 'u'), std::string("a\nb")}) {
    GuardedExchange exchange(settings, bounds_, events_);
    exchange.OnMessage(OfPeer("spiffe://bff", user));
    EXPECT_TRUE(exchange.TakeResponse().value_or(Response()).has_immediate_response());
  }
  EXPECT_EQ(events_.refused_, 2);
  EXPECT_EQ(events_.unconfigured_, 0);
  EXPECT_EQ(events_.misconfigured_, 0);
}

// A backend for a frontend names its users itself.
TEST_F(GuardedExchangeTest, APeerHasOneShareForAllOfItsUsers) {
  constexpr std::size_t kExchanges = 64;
  for (const auto& scope :
       {CombinedScopeSource{{PeerName::kUri, ScopeHeader{"x-user"}}},
        CombinedScopeSource{{SharedScopeName{"shop"}, ScopeHeader{"x-user"}, PeerName::kUri}}}) {
    const auto settings = SettingsWithScope(scope);
    ExchangeBounds bounds({kExchanges, limits::kMaxExchangeBytes}, events_);
    std::vector<std::unique_ptr<GuardedExchange>> exchanges;
    const auto is_admitted = [&](const std::string& uri, const std::string& user) {
      EXPECT_TRUE(bounds.Enter());
      exchanges.push_back(std::make_unique<GuardedExchange>(settings, bounds, events_));
      exchanges.back()->OnMessage(OfPeer(uri, user));
      return !exchanges.back()->TakeResponse().value_or(Response()).has_immediate_response();
    };
    std::size_t admitted = 0;
    for (std::size_t i = 0; i + 1 < kExchanges; ++i) {
      admitted += is_admitted("spiffe://bff", absl::StrCat("user-", i));
    }
    EXPECT_LT(admitted, kExchanges - 1);
    EXPECT_TRUE(is_admitted("spiffe://other", "user-1"));
    EXPECT_EQ(exchanges.back()->held().scope, "spiffe://other") << "of the bytes, too";
  }
}

TEST_F(GuardedExchangeTest, AProxyThatStatesNoCertificatesIsMisconfigured) {
  GuardedExchange exchange(SettingsWithScope(PeerName::kUri), bounds_, events_);
  exchange.OnMessage(Headers("/orders", "application/json"));
  EXPECT_EQ(events_.refused_, 1);
  EXPECT_EQ(events_.misconfigured_, 1);
}

// Envoy's router would send the request again, behind the record.
TEST_F(GuardedExchangeTest, AHeaderThatMakesTheProxyRepeatIsRefused) {
  for (const char* name : {"x-envoy-retry-on", "x-envoy-retry-grpc-on", "x-envoy-max-retries",
                           "x-envoy-hedge-on-per-try-timeout", "x-envoy-retriable-status-codes",
                           "x-envoy-upstream-rq-per-try-timeout-ms"}) {
    Exchange::Request headers = Headers("/orders", "application/json");
    Add(name, "1", headers);
    EXPECT_FALSE(IsAdmitted(headers, "")) << name;
    EXPECT_EQ(refusal_.immediate_response().status().code(), 400) << name;
    EXPECT_THAT(refusal_.immediate_response().body(), HasSubstr(name));
  }
}

// An observed call has left already, and a body of another mode arrives after the request's headers
// have left.
TEST_F(GuardedExchangeTest, AProxyThatDoesNotWaitIsRefused) {
  using Modes = envoy::service::ext_proc::v3::ProtocolConfiguration;
  Exchange::Request waiting = Headers("/orders", "application/json");
  Modes& modes = *waiting.mutable_protocol_config();
  modes.set_request_body_mode(Modes::FULL_DUPLEX_STREAMED);
  modes.set_response_body_mode(Modes::FULL_DUPLEX_STREAMED);
  EXPECT_TRUE(IsAdmitted(waiting, ""));
  Exchange::Request observed = waiting;
  observed.set_observability_mode(true);
  Exchange::Request observed_only = Headers("/orders", "application/json");
  observed_only.set_observability_mode(true);
  Exchange::Request request_buffered = waiting;
  request_buffered.mutable_protocol_config()->set_request_body_mode(Modes::BUFFERED);
  Exchange::Request response_buffered = waiting;
  response_buffered.mutable_protocol_config()->set_response_body_mode(Modes::BUFFERED);
  int refused = 0;
  for (const Exchange::Request& headers :
       {observed, observed_only, request_buffered, response_buffered}) {
    SCOPED_TRACE(headers.ShortDebugString());
    GuardedExchange exchange(Settings(), bounds_, events_);
    exchange.OnMessage(headers);
    const Response answer = exchange.TakeResponse().value_or(Response());
    EXPECT_EQ(answer.immediate_response().status().code(), 500) << answer.ShortDebugString();
    EXPECT_THAT(answer.immediate_response().body(), HasSubstr("FULL_DUPLEX_STREAMED"));
    exchange.OnMessage(Body("{}"));
    EXPECT_FALSE(exchange.TakeTask().has_value());
    EXPECT_EQ(events_.refused_, ++refused);
    EXPECT_EQ(events_.misconfigured_, refused);
  }
}

// Exchanges with a reservation, on a clock that the test advances.
class GrantedExchangeTest : public GuardedExchangeTest {
 protected:
  explicit GrantedExchangeTest(const Exchange::Request& headers = Headers("/orders",
                                                                          "application/json"),
                               std::string body = "{}") {
    auto scheduler = std::make_unique<FakeScheduler>();
    scheduler_ = scheduler.get();
    auto connection = std::make_unique<FakeConnection>(*scheduler);
    store_ = connection.get();
    reservations_ = std::make_unique<ReservationClient>(std::move(connection), absl::Seconds(20),
                                                        absl::ZeroDuration(), /*replays=*/nullptr,
                                                        std::move(scheduler));
    exchange_.OnMessage(headers);
    exchange_.OnMessage(Body(std::move(body)));
  }
  ~GrantedExchangeTest() override {
    reservations_->Close();
    pools_.Stop();
  }

  // The grant of the exchange's request.
  std::shared_ptr<LiveExecution> Grant() {
    auto task = exchange_.TakeTask();
    auto& admit = std::get<GuardedExchange::Admit>(*task);
    auto operation = std::make_shared<const GuardedOperation>(
        GuardedOperation{admit.route.operation, admit.route.policy, exchange_.settings().guard,
                         *reservations_, pools_, admit.route.on_unknown});
    std::shared_ptr<LiveExecution> execution;
    Admission::Admit(std::move(operation), std::move(admit.request),
                     reservations_->Now() + std::chrono::minutes(1),
                     [&execution](Admission::Decision decision) {
                       execution = std::get<Admission::Granted>(decision).execution;
                     });
    return execution;
  }

  // An upstream's reply without a body.
  static Exchange::Request HttpReply(const std::string& status) {
    return Reply({{":status", status}});
  }
  static Exchange::Request Reply(const std::map<std::string, std::string>& headers) {
    Exchange::Request message;
    for (const auto& [key, value] : headers) {
      auto& header = *message.mutable_response_headers()->mutable_headers()->add_headers();
      header.set_key(key);
      header.set_raw_value(value);
    }
    message.mutable_response_headers()->set_end_of_stream(true);
    SetCodeDetails("via_upstream", message);
    return message;
  }
  static void SetCodeDetails(const std::string& details, Exchange::Request& reply) {
    auto& attributes = (*reply.mutable_attributes())["envoy.filters.http.ext_proc"];
    (*attributes.mutable_fields())["response.code_details"].set_string_value(details);
  }

  // The headers that are added to this reply once it is settled.
  std::map<std::string, std::string> OutcomeOf(const Exchange::Request& reply) {
    while (exchange_.TakeResponse().has_value()) {
    }
    exchange_.OnMessage(reply);
    return OutcomeOfHeld();
  }
  // The same for a problem (RFC 9457) of the upstream.
  std::map<std::string, std::string> OutcomeOfProblem(const std::string& body,
                                                      bool is_held = true) {
    while (exchange_.TakeResponse().has_value()) {
    }
    Exchange::Request headers =
        Reply({{":status", "409"}, {"content-type", "application/problem+json; charset=utf-8"}});
    headers.mutable_response_headers()->set_end_of_stream(false);
    exchange_.OnMessage(headers);
    if (!is_held) exchange_.OnNoRoom();
    Exchange::Request rest;
    rest.mutable_response_body()->set_body(body);
    rest.mutable_response_body()->set_end_of_stream(true);
    exchange_.OnMessage(rest);
    return OutcomeOfHeld();
  }
  std::map<std::string, std::string> OutcomeOfHeld() {
    auto task = exchange_.TakeTask();
    const auto done = [this](const Settlement::Outcome& outcome) { settled_ = outcome; };
    if (auto* settle = std::get_if<GuardedExchange::Settle>(&*task)) {
      ExchangeGuard::Perform(std::move(*settle), done);
    } else {
      ExchangeGuard::Perform(std::get<GuardedExchange::ReleaseWithoutEffect>(*std::move(task)),
                             done);
    }
    exchange_.OnSettled(*settled_);
    std::map<std::string, std::string> added;
    const Response response = exchange_.TakeResponse().value_or(Response());
    EXPECT_TRUE(response.has_response_headers()) << response.ShortDebugString();
    const auto& mutation = response.response_headers().response().header_mutation();
    for (const auto& option : mutation.set_headers()) {
      added[option.header().key()] = option.header().raw_value();
    }
    return added;
  }

  FakeConnection* store_ = nullptr;
  FakeScheduler* scheduler_ = nullptr;
  std::unique_ptr<ReservationClient> reservations_;
  WorkerPools pools_;
  GuardedExchange exchange_{Settings(), bounds_, events_};
  std::optional<Settlement::Outcome> settled_;
};

// The next attempt may run already.
TEST_F(GrantedExchangeTest, AGrantThatIsLostIsNotForwarded) {
  const std::shared_ptr<LiveExecution> execution = Grant();
  store_->TakeOver();
  // To the first heartbeat.
  scheduler_->Advance(limits::kDefaultLease / 2);
  ASSERT_TRUE(execution->lost());
  exchange_.OnDecision(Admission::Granted{execution});
  const Response refusal = exchange_.TakeResponse().value_or(Response());
  EXPECT_EQ(refusal.immediate_response().status().code(), 409) << refusal.ShortDebugString();
  EXPECT_FALSE(exchange_.TakeResponse().has_value());
  auto task = exchange_.TakeTask();
  ASSERT_TRUE(task.has_value());
  ASSERT_TRUE(std::holds_alternative<GuardedExchange::ReleaseWithoutEffect>(*task));
  ExchangeGuard::Perform(std::get<GuardedExchange::ReleaseWithoutEffect>(*std::move(task)),
                         [](const Settlement::Outcome&) {});
}

// A retry would reach the upstream again, and no record can contradict the reply.
TEST_F(GrantedExchangeTest, WithoutARecordAnyMoreTheReplyPasses) {
  exchange_.OnDecision(Admission::Granted{Grant()});
  store_->LoseRecord();
  EXPECT_EQ(OutcomeOf(HttpReply("201")).count("idempotency-expires"), 0u);
  EXPECT_EQ(settled_->unrecorded.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(events_.not_recorded_, 1);
}

class GrantedGrpcExchangeTest : public GrantedExchangeTest {
 protected:
  GrantedGrpcExchangeTest()
      : GrantedExchangeTest(Headers("/shop.v1.Shop/Order", "application/grpc"), EmptyMessage()) {}

 private:
  static std::string EmptyMessage() {
    std::string body;
    AppendGrpcMessage("", body);
    return body;
  }
};

TEST_F(GrantedGrpcExchangeTest, WithoutARecordAnyMoreAFinalFailurePassesAndIsNotRetried) {
  exchange_.OnDecision(Admission::Granted{Grant()});
  store_->LoseRecord();
  const auto added = OutcomeOf(
      Reply({{":status", "200"}, {"content-type", "application/grpc"}, {"grpc-status", "9"}}));
  EXPECT_EQ(added.count("grpc-status"), 0u) << "its own";
  EXPECT_EQ(added.at("grpc-retry-pushback-ms"), "-1");
}

// Such as of a guard behind the proxy: recorded, its refusal would be replayed for ever.
TEST_F(GrantedGrpcExchangeTest, ARefusalOfAnotherGuardIsNoOutcome) {
  exchange_.OnDecision(Admission::Granted{Grant()});
  const grpc::Status refusal =
      ToGrpcStatus(MakeError(Reason::kFingerprintUnknown, "nothing in common"));
  const auto added =
      OutcomeOf(Reply({{":status", "200"},
                       {"content-type", "application/grpc"},
                       {"grpc-status", "9"},
                       {"grpc-status-details-bin", EncodeBinaryHeader(refusal.error_details())}}));
  EXPECT_EQ(added.count("idempotency-expires"), 0u);
  EXPECT_NE(store_->record().state, v1::RECORD_STATE_COMPLETED);
}

TEST_F(GrantedGrpcExchangeTest, WithoutARecordAnyMoreTheProxysAnswerIsNotRetried) {
  exchange_.OnDecision(Admission::Granted{Grant()});
  store_->LoseRecord();
  Exchange::Request reply =
      Reply({{":status", "200"}, {"content-type", "application/grpc"}, {"grpc-status", "14"}});
  SetCodeDetails("response_timeout", reply);
  const auto added = OutcomeOf(reply);
  ASSERT_EQ(added.count("grpc-retry-pushback-ms"), 1u);
  EXPECT_EQ(added.at("grpc-retry-pushback-ms"), "-1");
}

TEST_F(GrantedGrpcExchangeTest, WithoutARecordThatAnotherAttemptHadTheProxysAnswerIsNotRetried) {
  const auto execution = Grant();
  exchange_.OnDecision(Admission::Granted{execution});
  store_->TakeOver();
  EXPECT_FALSE(execution->Checkpoint("half").ok());
  store_->LoseRecord();
  Exchange::Request reply =
      Reply({{":status", "200"}, {"content-type", "application/grpc"}, {"grpc-status", "14"}});
  SetCodeDetails("response_timeout", reply);
  const auto added = OutcomeOf(reply);
  ASSERT_EQ(added.count("grpc-retry-pushback-ms"), 1u);
  EXPECT_EQ(added.at("grpc-retry-pushback-ms"), "-1");
}

TEST_F(GrantedExchangeTest, AProblemOfAnotherGuardIsNoOutcome) {
  exchange_.OnDecision(Admission::Granted{Grant()});
  OutcomeOfProblem(HttpFront().Reject(MakeError(Reason::kInFlight, "running"), "").body);
  EXPECT_EQ(store_->calls(FakeConnection::Operation::kComplete), 0);
  EXPECT_EQ(store_->record().state, v1::RECORD_STATE_UNKNOWN);
}

TEST_F(GrantedExchangeTest, AProblemForWhichThereIsNoMemoryIsNoOutcomeEither) {
  exchange_.OnDecision(Admission::Granted{Grant()});
  OutcomeOfProblem(HttpFront().Reject(MakeError(Reason::kInFlight, "running"), "").body,
                   /*is_held=*/false);
  EXPECT_EQ(store_->calls(FakeConnection::Operation::kComplete), 0);
  EXPECT_EQ(store_->record().state, v1::RECORD_STATE_UNKNOWN);
}

TEST_F(GrantedExchangeTest, AProblemOfANewerGuardIsNoOutcome) {
  exchange_.OnDecision(Admission::Granted{Grant()});
  OutcomeOfProblem(R"({"type":"tag:grpc-idempotency.dev,2026:KEY_RETIRED","status":409})");
  EXPECT_EQ(store_->calls(FakeConnection::Operation::kComplete), 0);
  EXPECT_EQ(store_->record().state, v1::RECORD_STATE_UNKNOWN);
}

TEST_F(GrantedExchangeTest, AProblemOfTheUpstreamsOwnIsAnOutcome) {
  exchange_.OnDecision(Admission::Granted{Grant()});
  OutcomeOfProblem(R"({"type":"tag:shop.example,2026:IN_FLIGHT"})");
  EXPECT_EQ(store_->record().state, v1::RECORD_STATE_COMPLETED);
}

// As to a payment page, after an effect.
TEST_F(GrantedExchangeTest, ARedirectIsAnOutcome) {
  exchange_.OnDecision(Admission::Granted{Grant()});
  EXPECT_EQ(OutcomeOf(HttpReply("307")).count("idempotency-expires"), 1u);
  EXPECT_EQ(store_->record().state, v1::RECORD_STATE_COMPLETED);
}

// Replays of recorded responses of HTTP.
class HttpReplayTest : public ::testing::Test {
 protected:
  static HttpMessage Recorded(std::size_t body) {
    HttpMessage response;
    response.headers.Add(":status", "201");
    response.body = std::string(body, 'b');
    return response;
  }

  // The messages of the replay.
  std::vector<Response> ReplayOf(const HttpMessage& recorded) {
    GuardedExchange exchange(Settings(), bounds_, events_);
    exchange.OnMessage(Headers("/orders", "application/json"));
    exchange.OnMessage(Body("{}"));
    EXPECT_TRUE(exchange.TakeTask().has_value());
    const v1::Reply reply = HttpFront().Capture(recorded, /*whole=*/true);
    exchange.OnDecision(Admission::Replayed{SentReply(reply)});
    std::vector<Response> messages;
    while (auto message = exchange.TakeResponse()) messages.push_back(*std::move(message));
    return messages;
  }

  static std::vector<std::string> ValuesOf(const Response& response, const std::string& name) {
    std::vector<std::string> values;
    for (const auto& option : response.immediate_response().headers().set_headers()) {
      if (option.header().key() == name) values.push_back(option.header().raw_value());
    }
    return values;
  }

  CountedEvents events_;
  ExchangeBounds bounds_{{}, events_};
};

constexpr std::size_t kLargeBody = 300 * 1024;

// Envoy changes a response in one message as its local_reply_config states.
TEST_F(HttpReplayTest, OneWithDifferentHeadersIsStreamed) {
  for (const std::size_t body : {std::size_t{0}, std::size_t{3}, kLargeBody}) {
    HttpMessage recorded = Recorded(body);
    recorded.headers.Add("set-cookie", "a=1");
    recorded.headers.Add("vary", "accept");
    const std::vector<Response> replay = ReplayOf(recorded);
    for (const Response& message : replay) {
      EXPECT_TRUE(message.has_streamed_immediate_response()) << body;
    }
    const auto& headers = replay[0].streamed_immediate_response().headers_response().headers();
    std::string length;
    for (const auto& header : headers.headers()) {
      if (header.key() == "content-length") length = header.raw_value();
    }
    EXPECT_EQ(length, body == 0 ? "" : absl::StrCat(body));
  }
}

TEST_F(HttpReplayTest, ALargeOneKeepsEveryCookie) {
  HttpMessage recorded = Recorded(kLargeBody);
  recorded.headers.Add("set-cookie", "a=1");
  recorded.headers.Add("set-cookie", "b=2");
  const std::vector<Response> replay = ReplayOf(recorded);
  ASSERT_EQ(replay.size(), 1U);
  EXPECT_EQ(ValuesOf(replay[0], "set-cookie"), (std::vector<std::string>{"a=1", "b=2"}));
  EXPECT_EQ(replay[0].immediate_response().body(), recorded.body);
}

TEST_F(HttpReplayTest, ALargeOneKeepsEveryRepeatedHeader) {
  HttpMessage recorded = Recorded(kLargeBody);
  recorded.headers.Add("warning", "199 - one");
  recorded.headers.Add("warning", "199 - two");
  const std::vector<Response> replay = ReplayOf(recorded);
  ASSERT_EQ(replay.size(), 1U);
  EXPECT_EQ(ValuesOf(replay[0], "warning"), (std::vector<std::string>{"199 - one", "199 - two"}));
}

TEST_F(HttpReplayTest, OneWithTrailersJoinsARepeatedHeader) {
  HttpMessage recorded = Recorded(3);
  recorded.headers.Add("vary", "accept");
  recorded.headers.Add("vary", "origin");
  recorded.headers.Add("set-cookie", "a=1");
  recorded.trailers = HeaderList({{"x-checksum", "7"}});
  const std::vector<Response> replay = ReplayOf(recorded);
  ASSERT_EQ(replay.size(), 3U);
  std::string vary;
  const auto& headers = replay[0].streamed_immediate_response().headers_response().headers();
  for (const auto& header : headers.headers()) {
    if (header.key() == "vary") vary = header.raw_value();
  }
  EXPECT_EQ(vary, "accept,origin");
  EXPECT_TRUE(replay[2].streamed_immediate_response().has_trailers_response());
}

TEST_F(HttpReplayTest, OneWithTrailersAndSeveralCookiesKeepsTheCookies) {
  HttpMessage recorded = Recorded(3);
  recorded.headers.Add("set-cookie", "a=1");
  recorded.headers.Add("set-cookie", "b=2");
  recorded.trailers = HeaderList({{"x-checksum", "7"}});
  const std::vector<Response> replay = ReplayOf(recorded);
  ASSERT_EQ(replay.size(), 1U);
  EXPECT_EQ(ValuesOf(replay[0], "set-cookie"), (std::vector<std::string>{"a=1", "b=2"}));
  EXPECT_EQ(replay[0].immediate_response().body(), recorded.body);
}

}  // namespace
}  // namespace idempotency::internal
