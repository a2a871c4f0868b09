#include "core/declared_policy.h"

#include <gtest/gtest.h>

#include <string>

#include "google/protobuf/descriptor.pb.h"

#include "testdata/declared.pb.h"

namespace idempotency::internal {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::FileDescriptorProto;
using google::protobuf::MethodOptions;

constexpr int kPolicyNumber = 52410;

const google::protobuf::MethodDescriptor& Method(const std::string& name) {
  return *testdata::DeclaredRequest::descriptor()->file()->service(0)->FindMethodByName(name);
}

v1::Policy::Key RuleOf(const std::string& name) {
  return KeyRule(Method(name), DeclaredPolicy(Method(name).options()).value());
}

TEST(KeyRuleTest, WithoutTheOptionItIsTheIdempotencyLevel) {
  EXPECT_EQ(RuleOf("Silent"), v1::Policy::KEY_REQUIRED);
  EXPECT_EQ(RuleOf("OnlyLease"), v1::Policy::KEY_REQUIRED);
  EXPECT_EQ(RuleOf("Read"), v1::Policy::KEY_NONE);
  EXPECT_EQ(RuleOf("Put"), v1::Policy::KEY_NONE);
}

TEST(KeyRuleTest, TheOptionComesFirst) {
  EXPECT_EQ(RuleOf("Required"), v1::Policy::KEY_REQUIRED);
  EXPECT_EQ(RuleOf("Optional"), v1::Policy::KEY_OPTIONAL);
  EXPECT_EQ(RuleOf("None"), v1::Policy::KEY_NONE);
}

TEST(KeyRuleTest, StreamsNeedAKeyOnlyWhereTheyAreCaptured) {
  EXPECT_EQ(RuleOf("Watch"), v1::Policy::KEY_NONE);
  EXPECT_EQ(RuleOf("Collect"), v1::Policy::KEY_NONE);
  EXPECT_EQ(RuleOf("Captured"), v1::Policy::KEY_REQUIRED);
  EXPECT_EQ(RuleOf("CapturedRead"), v1::Policy::KEY_NONE);
}

TEST(DeclaredGuardedTest, NeedsTheOptionAndAKey) {
  for (const std::string name : {"Required", "Optional", "OnlyLease", "Captured"}) {
    EXPECT_TRUE(IsDeclaredGuarded(Method(name))) << name;
  }
  for (const std::string name : {"Silent", "Read", "Put", "None", "Watch", "CapturedRead"}) {
    EXPECT_FALSE(IsDeclaredGuarded(Method(name))) << name;
  }
}

TEST(DeclaredPolicyTest, WithoutAnOptionThePolicyIsEmpty) {
  EXPECT_EQ(DeclaredPolicy(Method("Silent").options()).value().ByteSizeLong(), 0u);
}

// A descriptor that was made before this library was loaded.
TEST(DeclaredPolicyTest, IsFoundAmongUnknownFields) {
  v1::Policy policy;
  policy.mutable_lease()->set_seconds(7);
  MethodOptions options;
  options.mutable_unknown_fields()->AddVarint(60000, 1);
  options.mutable_unknown_fields()->AddLengthDelimited(kPolicyNumber, policy.SerializeAsString());
  ASSERT_FALSE(options.HasExtension(v1::policy));
  EXPECT_EQ(DeclaredPolicy(options).value().lease().seconds(), 7);
}

TEST(DeclaredPolicyTest, BytesThatAreNoPolicyAreAnError) {
  MethodOptions options;
  options.mutable_unknown_fields()->AddLengthDelimited(kPolicyNumber, "\xFF\xFF");
  EXPECT_EQ(DeclaredPolicy(options).status().code(), absl::StatusCode::kInvalidArgument);
}

// A proto that was not compiled into the program, as a proxy has it.
TEST(DeclaredPolicyTest, IsFoundInADescriptorMadeAtRunTime) {
  FileDescriptorProto file;
  testdata::DeclaredRequest::descriptor()->file()->CopyTo(&file);
  FileDescriptorProto bare;
  ASSERT_TRUE(bare.ParseFromString(file.SerializeAsString()));
  // The pool itself has no definition of the option.
  bare.clear_dependency();
  DescriptorPool pool;
  const auto* built = pool.BuildFile(bare);
  ASSERT_NE(built, nullptr);
  const auto* method = built->service(0)->FindMethodByName("OnlyLease");
  EXPECT_EQ(DeclaredPolicy(method->options()).value().lease().seconds(), 5);
}

}  // namespace
}  // namespace idempotency::internal
