#include "interceptors/ext_proc/policy/route_table.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/descriptor.pb.h"
#include "gtest/gtest.h"

#include "idempotency/v1/idempotency_service.pb.h"
#include "idempotency/v1/options.pb.h"

namespace idempotency::internal {
namespace {

using google::protobuf::FileDescriptorProto;
using google::protobuf::FileDescriptorSet;
using testing::HasSubstr;
using KeyFormat = ProcessorConfig::KeyFormat;

// A service with a method for each kind, and a reply with a field that must not be stored.
FileDescriptorProto ShopFile() {
  FileDescriptorProto file;
  file.set_name("shop.proto");
  file.set_package("shop.v1");
  auto& request = *file.add_message_type();
  request.set_name("Request");
  auto& id = *request.add_field();
  id.set_name("request_id");
  id.set_number(1);
  id.set_type(google::protobuf::FieldDescriptorProto::TYPE_STRING);
  id.set_label(google::protobuf::FieldDescriptorProto::LABEL_OPTIONAL);
  auto& service = *file.add_service();
  service.set_name("Shop");
  for (const char* name : {"Order", "Look", "Watch"}) {
    auto& method = *service.add_method();
    method.set_name(name);
    method.set_input_type("Request");
    method.set_output_type("Request");
  }
  service.mutable_method(0)
      ->mutable_options()
      ->MutableExtension(v1::policy)
      ->set_key_field("request_id");
  service.mutable_method(1)->mutable_options()->set_idempotency_level(
      google::protobuf::MethodOptions::NO_SIDE_EFFECTS);
  service.mutable_method(2)->set_server_streaming(true);
  return file;
}

ProcessorConfig Described() {
  ProcessorConfig config;
  config.name_space = "shop";
  config.on_unknown_outcome = MethodPolicy::OnUnknownOutcome::kRequireRecovery;
  FileDescriptorSet set;
  *set.add_file() = ShopFile();
  config.descriptor_sets.push_back({"shop.binpb", set.SerializeAsString()});
  return config;
}

ProcessorConfig WithHttpRoutes(std::vector<ProcessorConfig::HttpRoute> routes) {
  ProcessorConfig config;
  config.name_space = "shop";
  config.on_unknown_outcome = MethodPolicy::OnUnknownOutcome::kTakeOver;
  config.http_routes = std::move(routes);
  return config;
}

TEST(RouteTableTest, ADescriptorDeclaresThePolicy) {
  const auto table = RouteTable::Make(Described()).value();
  const GuardedRoute* order = table->ForGrpc("/shop.v1.Shop/Order").value();
  EXPECT_EQ(order->policy.key, MethodPolicy::Key::kRequired);
  EXPECT_EQ(order->policy.key_field, "request_id");
  EXPECT_TRUE(order->key_field.has_value());
  EXPECT_NE(order->request_type, nullptr);
  EXPECT_EQ(table->ForGrpc("/shop.v1.Shop/Look").value()->policy.key, MethodPolicy::Key::kNone);
}

TEST(RouteTableTest, AKeyFormatIsOfTheEntryThatMatches) {
  ProcessorConfig config = Described();
  config.grpc_methods.push_back({"shop.v1.Shop/Order", std::nullopt, "", KeyFormat::kUuidv7});
  config.grpc_methods.push_back({"shop.v2.*/*", std::nullopt, "", KeyFormat::kUuidv7});
  config.grpc_methods.push_back({"shop.v3.*/*", std::nullopt});
  config.http_routes.push_back({{"POST", "PUT"}, "/orders", std::nullopt, "", KeyFormat::kUuidv7});
  config.http_routes.push_back({{"POST"}, "/returns", std::nullopt});
  const auto table = RouteTable::Make(config).value();
  const GuardedRoute* order = table->ForGrpc("/shop.v1.Shop/Order").value();
  EXPECT_TRUE(order->key_validator);
  EXPECT_EQ(order->policy.key_field, "request_id") << "the declared policy stays";
  EXPECT_FALSE(table->ForGrpc("/shop.v1.Shop/Look").value()->key_validator);
  EXPECT_TRUE(table->ForGrpc("/shop.v2.Shop/Order").value()->key_validator);
  EXPECT_FALSE(table->ForGrpc("/shop.v3.Shop/Order").value()->key_validator);
  EXPECT_TRUE(table->ForHttp("POST", "/orders").value()->key_validator);
  EXPECT_TRUE(table->ForHttp("PUT", "/orders").value()->key_validator);
  EXPECT_FALSE(table->ForHttp("POST", "/returns").value()->key_validator);
}

TEST(RouteTableTest, NothingPassesWithoutAPolicy) {
  const auto table = RouteTable::Make(Described()).value();
  EXPECT_THAT(std::string(table->ForGrpc("/shop.v1.Shop/Watch").status().message()),
              HasSubstr("streaming"));
  EXPECT_FALSE(table->ForGrpc("/shop.v1.Shop/Other").ok());
  EXPECT_FALSE(table->ForGrpc("/shop.v1.Shop/order").ok());
  EXPECT_FALSE(table->ForGrpc("").ok());
  EXPECT_FALSE(table->ForHttp("POST", "/shop.v1.Shop/Order").ok());
}

// Some servers accept them, so that a caller gets there what it gets for no entry.
TEST(RouteTableTest, OtherSpellingsOfWhatHasARouteAreKnown) {
  ProcessorConfig config = Described();
  config.grpc_methods.push_back({"shop.v1.*/*", std::nullopt});
  config.grpc_methods.push_back({"books.v1.*/Create*", std::nullopt});
  config.http_routes.push_back({{"POST"}, "/v1/orders/{id}", std::nullopt});
  const auto table = RouteTable::Make(config).value();
  for (const char* path :
       {"/shop.v1.Shop/Order", "/shop.v1.shop/order", "/shop.v1.Shop/Order/",
        "/shop.v1.Shop/Order?a=b", "/shop.v1.Shop/Order;a=b", "/Books.v1.Books/createBook/"}) {
    EXPECT_TRUE(table->NamesGrpcMethod(path)) << path;
  }
  // The pattern matches the streaming method, which has no route all the same.
  for (const char* path :
       {"/shop.v1.Shop/Watch", "/books.v1.Books/Order", "/v1/orders/1", "", "/"}) {
    EXPECT_FALSE(table->NamesGrpcMethod(path)) << path;
  }
  for (const char* path : {"/v1/orders/1", "/V1/orders;x/1;a=b/?c", "/v1/orders/1#d"}) {
    EXPECT_TRUE(table->NamesHttpRequest("post", path)) << path;
  }
  EXPECT_FALSE(table->NamesHttpRequest("PUT", "/v1/orders/1"));
  EXPECT_FALSE(table->NamesHttpRequest("POST", "/v1/orders/;a"));
  EXPECT_FALSE(table->NamesHttpRequest("POST", ""));
}

TEST(RouteTableTest, ThePolicyOfAPatternReplacesTheDeclaredOne) {
  ProcessorConfig config = Described();
  v1::Policy policy;
  policy.set_key(v1::Policy::KEY_REQUIRED);
  policy.set_reply(v1::Policy::REPLY_STATUS_ONLY);
  config.grpc_methods.push_back({"shop.v1.*/O*", policy});
  const auto table = RouteTable::Make(config).value();
  const GuardedRoute* order = table->ForGrpc("/shop.v1.Shop/Order").value();
  EXPECT_EQ(order->policy.reply, MethodPolicy::Reply::kStatusOnly);
  EXPECT_EQ(order->policy.key_field, "");
  // Without a descriptor.
  const GuardedRoute* other = table->ForGrpc("/shop.v1.Other/Open").value();
  EXPECT_EQ(other->request_type, nullptr);
  EXPECT_EQ(other->operation, "");
}

// Its requests had version 2 of the fingerprint, and have version 1.
TEST(RouteTableTest, AMethodThatGetsADescriptorHasOtherFingerprints) {
  ProcessorConfig config = Described();
  config.grpc_methods.push_back({"shop.v1.Shop/O*", v1::Policy()});
  const auto described = RouteTable::Make(config).value();
  config.descriptor_sets.clear();
  const auto by_pattern = RouteTable::Make(config).value();
  const std::vector<std::string> changed = described->WithOtherFingerprints(*by_pattern);
  EXPECT_THAT(changed, testing::ElementsAre("/shop.v1.Shop/Order"));
  EXPECT_EQ(by_pattern->WithOtherFingerprints(*described), changed) << "or loses it";
  EXPECT_THAT(described->WithOtherFingerprints(*described), testing::IsEmpty());
}

// It was refused before, and has no records.
TEST(RouteTableTest, AMethodThatIsNewHasNoOtherFingerprints) {
  const auto described = RouteTable::Make(Described()).value();
  ProcessorConfig config = Described();
  config.descriptor_sets.clear();
  config.grpc_methods.push_back({"other.v1.Other/*", v1::Policy()});
  const auto before = RouteTable::Make(config).value();
  EXPECT_THAT(described->WithOtherFingerprints(*before), testing::IsEmpty());
}

TEST(RouteTableTest, HttpIsByMethodAndPath) {
  ProcessorConfig config;
  config.name_space = "shop";
  config.on_unknown_outcome = MethodPolicy::OnUnknownOutcome::kTakeOver;
  config.http_routes.push_back({{"POST", "PATCH"}, "/v1/orders/{id}", std::nullopt});
  const auto table = RouteTable::Make(config).value();
  EXPECT_EQ(table->ForHttp("POST", "/v1/orders/4?x=/y").value()->operation, "POST /v1/orders/{}");
  EXPECT_EQ(table->ForHttp("PATCH", "/v1/orders/4").value()->operation, "PATCH /v1/orders/{}");
  EXPECT_FALSE(table->ForHttp("GET", "/v1/orders/4").ok());
  EXPECT_FALSE(table->ForHttp("POST", "/v1/orders").ok());
}

// Or a retry after the change would run again.
TEST(RouteTableTest, AnEditedEntryOfHttpKeepsItsRecords) {
  const auto operation_with = [](const std::vector<std::string>& methods, const std::string& path) {
    ProcessorConfig config;
    config.name_space = "shop";
    config.on_unknown_outcome = MethodPolicy::OnUnknownOutcome::kTakeOver;
    config.http_routes.push_back({{methods.begin(), methods.end()}, path, std::nullopt});
    const auto table = RouteTable::Make(config).value();
    return table->ForHttp("POST", "/v1/orders/4/refunds").value()->operation;
  };
  const std::string before = operation_with({"POST"}, "/v1/orders/{id}/refunds");
  EXPECT_EQ(operation_with({"PATCH", "POST", "PUT"}, "/v1/orders/{id}/refunds"), before);
  EXPECT_EQ(operation_with({"POST"}, "/v1/orders/{order}/refunds"), before);
  EXPECT_EQ(operation_with({"POST"}, "/V1/Orders/{id}/Refunds"), before);
}

// A more specific entry is put before it.
TEST(RouteTableTest, AnEntryBeforeAnotherKeepsItsRecordsByTheirOperation) {
  ProcessorConfig config;
  config.name_space = "shop";
  config.on_unknown_outcome = MethodPolicy::OnUnknownOutcome::kTakeOver;
  config.http_routes.push_back({{"POST"}, "/v1/{kind}/refunds", std::nullopt});
  const auto operation = [&config] {
    const auto table = RouteTable::Make(config).value();
    return table->ForHttp("POST", "/v1/orders/refunds").value()->operation;
  };
  const std::string before = operation();
  config.http_routes.insert(config.http_routes.begin(),
                            {{"POST"}, "/v1/orders/refunds", std::nullopt});
  EXPECT_NE(operation(), before);
  config.http_routes.front().operation = "POST /v1/{}/refunds";
  EXPECT_EQ(operation(), before);
}

// The retries of these requests run again after a reload.
TEST(RouteTableTest, RequestsWithOtherOperationsAreFound) {
  using Entry = ProcessorConfig::HttpRoute;
  const auto table_of = [](const std::vector<Entry>& entries) {
    return RouteTable::Make(WithHttpRoutes(entries)).value();
  };
  const Entry any{{"POST"}, "/v1/{kind}/refunds", std::nullopt};
  const Entry specific{{"POST"}, "/v1/payments/refunds", std::nullopt};
  const Entry other_way{{"POST"}, "/{version}/payments/refunds", std::nullopt};
  const auto before = table_of({any});
  using ::testing::ElementsAre;
  using ::testing::IsEmpty;
  EXPECT_THAT(before->WithOtherOperations(*before), IsEmpty());
  // An entry is put before, also one that matches a part of its requests only.
  EXPECT_THAT(table_of({specific, any})->WithOtherOperations(*before),
              ElementsAre("POST /v1/payments/refunds"));
  EXPECT_THAT(table_of({other_way, any})->WithOtherOperations(*before),
              ElementsAre("POST /v1/payments/refunds"));
  EXPECT_THAT(table_of({any, other_way})->WithOtherOperations(*before), IsEmpty());
  // It is removed again.
  EXPECT_THAT(before->WithOtherOperations(*table_of({specific, any})),
              ElementsAre("POST /v1/payments/refunds"));
  // The new entry has the records of the former one.
  Entry named = specific;
  named.operation = "POST /v1/{}/refunds";
  EXPECT_THAT(table_of({named, any})->WithOtherOperations(*before), IsEmpty());
  Entry renamed = any;
  renamed.operation = "refund";
  EXPECT_THAT(table_of({renamed})->WithOtherOperations(*before),
              ElementsAre("POST /v1/{}/refunds"));
  // They are refused.
  EXPECT_THAT(table_of({specific})->WithOtherOperations(*table_of({{{"PUT"}, "/x", std::nullopt}})),
              IsEmpty());
}

TEST(RouteTableTest, AnOperationOfHttpIsOneThatARecordCanHave) {
  ProcessorConfig config;
  config.name_space = "shop";
  config.on_unknown_outcome = MethodPolicy::OnUnknownOutcome::kTakeOver;
  config.http_routes.push_back({{"POST"}, "/v1/orders", std::nullopt, "refund"});
  EXPECT_TRUE(RouteTable::Make(config).ok());
  for (const std::string& bad : {std::string("/shop.v1.Shop/Order"), std::string(600, 'o')}) {
    config.http_routes.front().operation = bad;
    EXPECT_THAT(std::string(RouteTable::Make(config).status().message()),
                HasSubstr("http_routes /v1/orders: "));
  }
}

// A renamed method has the records of its former name, with a descriptor and without.
TEST(RouteTableTest, AnEntryOfOneMethodNamesItsOperation) {
  const auto before = RouteTable::Make(Described()).value();
  ProcessorConfig config = Described();
  config.grpc_methods.push_back({"shop.v1.Shop/Order", std::nullopt, "/shop.v0.Shop/Order"});
  config.grpc_methods.push_back({"shop.v2.Shop/Order", std::nullopt, "/shop.v0.Shop/Order"});
  const auto table = RouteTable::Make(config).value();
  const GuardedRoute* order = table->ForGrpc("/shop.v1.Shop/Order").value();
  EXPECT_EQ(order->operation, "/shop.v0.Shop/Order");
  EXPECT_EQ(order->policy.key_field, "request_id") << "as declared";
  EXPECT_EQ(table->ForGrpc("/shop.v2.Shop/Order").value()->operation, "/shop.v0.Shop/Order");
  EXPECT_THAT(table->WithOtherOperations(*table), testing::IsEmpty());
  EXPECT_THAT(table->WithOtherOperations(*before), testing::ElementsAre("/shop.v1.Shop/Order"));
  EXPECT_THAT(before->WithOtherOperations(*table), testing::ElementsAre("/shop.v1.Shop/Order"));

  const auto fault_of = [&](const std::string& name, const std::string& operation) {
    config.grpc_methods.back() = {name, std::nullopt, operation};
    return std::string(RouteTable::Make(config).status().message());
  };
  EXPECT_EQ(fault_of("shop.v2.Shop/Order", "/order"), "");
  EXPECT_THAT(fault_of("shop.v2.Shop/*", "/order"), HasSubstr("needs a name without '*'"));
  EXPECT_THAT(fault_of("shop.v2.Shop/Order", "order"), HasSubstr("must begin with '/'"));
  EXPECT_THAT(fault_of("shop.v2.Shop/Order", "/" + std::string(512, 'o')),
              HasSubstr("is too long"));
}

TEST(RouteTableTest, EveryFaultIsReported) {
  ProcessorConfig config = Described();
  config.name_space = "No";
  config.on_unknown_outcome.reset();
  v1::Policy policy;
  policy.set_fail_open(true);
  policy.set_reply(v1::Policy::REPLY_REFERENCE);
  policy.set_cancel_when_lost(true);
  policy.set_key_field("request_id");
  config.grpc_methods.push_back({"a.B/C", policy});
  config.grpc_methods.push_back({"bad", std::nullopt});
  config.http_routes.push_back({{}, "no-slash", std::nullopt});
  config.descriptor_sets.push_back({"garbage.binpb", "garbage"});
  const absl::Status faults = RouteTable::Make(config).status();
  for (const char* part : {"namespace", "fail_open", "REFERENCE", "cancel_when_lost",
                           "the key field", "grpc_methods bad", "no-slash", "garbage.binpb",
                           "/shop.v1.Shop/Order: the handling of an unknown outcome"}) {
    EXPECT_THAT(std::string(faults.message()), HasSubstr(part));
  }
}

// The policy of an entry that never applies would silently not hold.
TEST(RouteTableTest, AnEntryThatAnEarlierOneCoversIsAFault) {
  const auto faults_of = [](const std::vector<const char*>& names) {
    ProcessorConfig config = Described();
    for (const char* name : names) config.grpc_methods.push_back({name, v1::Policy()});
    return std::string(RouteTable::Make(config).status().message());
  };
  EXPECT_EQ(faults_of({"shop.v1.Shop/Order", "shop.v1.*/O*", "shop.v1.*/*", "*/*"}), "");
  // They overlap, and each applies to something.
  EXPECT_EQ(faults_of({"shop.v1.Other/A*", "shop.v1.Other/*b"}), "");
  EXPECT_THAT(faults_of({"shop.v1.*/*", "shop.v1.Shop/Order"}),
              HasSubstr("grpc_methods shop.v1.Shop/Order: is never used: the entry grpc_methods "
                        "shop.v1.*/* before it"));
  // Without a descriptor, and for a pattern.
  EXPECT_THAT(faults_of({"shop.v1.*/*", "shop.v1.Other/Open"}), HasSubstr("is never used"));
  EXPECT_THAT(faults_of({"shop.v1.*/*", "shop.v1.*/O*"}), HasSubstr("is never used"));
  EXPECT_THAT(faults_of({"shop.v1.Shop/Order", "shop.v1.Shop/Order"}), HasSubstr("is never used"));
}

TEST(RouteTableTest, AnEntryOfHttpThatAnEarlierOneCoversIsAFault) {
  using Entry = ProcessorConfig::HttpRoute;
  const auto faults_of = [](const std::vector<Entry>& entries) {
    return std::string(RouteTable::Make(WithHttpRoutes(entries)).status().message());
  };
  const Entry any{{"POST"}, "/v1/{kind}/refunds", std::nullopt};
  const Entry specific{{"POST"}, "/v1/payments/refunds", std::nullopt};
  EXPECT_EQ(faults_of({specific, any}), "");
  EXPECT_THAT(faults_of({any, specific}),
              HasSubstr("http_routes POST /v1/payments/refunds: is never used: the entry "
                        "http_routes /v1/{}/refunds before it"));
  EXPECT_EQ(faults_of({any, {{"PUT"}, "/v1/payments/refunds", std::nullopt}}), "");
  EXPECT_THAT(faults_of({any, {{"PUT", "POST"}, "/V1/{x}/Refunds", std::nullopt}}),
              HasSubstr("http_routes POST /V1/{x}/Refunds: is never used"));
  EXPECT_EQ(faults_of({any, {{"POST"}, "/{version}/payments/refunds", std::nullopt}}), "");
}

TEST(RouteTableTest, AMethodOfHttpIsNoPattern) {
  for (const char* const bad : {"", "*", "POST,PUT", "post"}) {
    const ProcessorConfig config = WithHttpRoutes({{{"POST", bad}, "/v1/orders", std::nullopt}});
    EXPECT_THAT(std::string(RouteTable::Make(config).status().message()),
                HasSubstr("is no method of HTTP"))
        << bad;
  }
}

// As a guard refuses it: a typing error would leave the method with another policy.
TEST(RouteTableTest, AnEntryThatMissesItsDescribedServiceIsAFault) {
  const auto faults_of = [](const char* name) {
    ProcessorConfig config = Described();
    config.grpc_methods.push_back({name, v1::Policy()});
    return std::string(RouteTable::Make(config).status().message());
  };
  EXPECT_THAT(faults_of("shop.v1.Shop/Oder"),
              HasSubstr("grpc_methods shop.v1.Shop/Oder: descriptor_sets describe its service"));
  EXPECT_THAT(faults_of("shop.v1.Shop/Od*"), HasSubstr("no such method"));
  EXPECT_EQ(faults_of("shop.v1.Shop/Or*"), "");
  EXPECT_EQ(faults_of("shop.v1.Stock/Oder"), "");
  EXPECT_EQ(faults_of("shop.v1.*/Oder"), "") << "of services that are not described";
}

// A guard of the same proto needs what the processor refuses.
TEST(RouteTableTest, ADeclaredPolicyThatAProxyCannotKeepIsOverridden) {
  ProcessorConfig config = Described();
  FileDescriptorSet set;
  *set.add_file() = ShopFile();
  set.mutable_file(0)
      ->mutable_service(0)
      ->mutable_method(0)
      ->mutable_options()
      ->MutableExtension(v1::policy)
      ->set_cancel_when_lost(true);
  config.descriptor_sets[0].content = set.SerializeAsString();
  EXPECT_THAT(std::string(RouteTable::Make(config).status().message()),
              HasSubstr("/shop.v1.Shop/Order: cancel_when_lost: the processor cannot cancel the "
                        "upstream: override it with a policy in grpc_methods"));
  config.grpc_methods.push_back({"shop.v1.Shop/Order", v1::Policy()});
  EXPECT_TRUE(RouteTable::Make(config).ok());
  config.grpc_methods[0].policy->set_cancel_when_lost(true);
  EXPECT_THAT(std::string(RouteTable::Make(config).status().message()),
              HasSubstr("the upstream: leave it out"));
}

TEST(RouteTableTest, ADescriptorSetNeedsItsImports) {
  ProcessorConfig config = Described();
  FileDescriptorSet set;
  *set.add_file() = ShopFile();
  set.mutable_file(0)->add_dependency("missing.proto");
  config.descriptor_sets[0].content = set.SerializeAsString();
  EXPECT_THAT(std::string(RouteTable::Make(config).status().message()),
              HasSubstr("--include_imports"));
}

TEST(RouteTableTest, SetsMayShareFilesThatAreTheSame) {
  ProcessorConfig config = Described();
  config.descriptor_sets.push_back(config.descriptor_sets[0]);
  EXPECT_TRUE(RouteTable::Make(config).ok());
  FileDescriptorSet other;
  *other.add_file() = ShopFile();
  other.mutable_file(0)->mutable_service(0)->mutable_method(0)->set_name("Another");
  config.descriptor_sets[1].content = other.SerializeAsString();
  EXPECT_THAT(std::string(RouteTable::Make(config).status().message()), HasSubstr("differs"));
}

}  // namespace
}  // namespace idempotency::internal
