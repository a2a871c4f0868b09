#include "tests/support/programs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/support/process.h"

namespace idempotency::internal::testing {
namespace {

using ::testing::HasSubstr;

// A program of this build that this test does not name.
constexpr char kOther[] = "payments_client";

TEST(ProgramsTest, WhatTheTestNamesCanBeStarted) {
  const auto process = Process::Start({"idempotencyd", "--version"});
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_EQ((*process)->Wait()->code, 0);
}

TEST(ProgramsTest, TheTestItselfAndTheSystemsProgramsNeedNoName) {
  EXPECT_TRUE(ProgramPath("programs_test").ok());
  EXPECT_TRUE(MayStart("/bin/sh"));
}

TEST(ProgramsTest, AnotherOneOfTheBuildCannotBeStartedByItsNameOrItsPath) {
  const std::string folder =
      std::filesystem::path(ProgramPath("idempotencyd").value()).parent_path().string();
  for (const std::string& name :
       {std::string(kOther), folder + "/" + kOther, folder + "/../bin/" + kOther}) {
    const auto process = Process::Start({name});
    EXPECT_EQ(process.status().code(), absl::StatusCode::kFailedPrecondition) << name;
    EXPECT_THAT(std::string(process.status().message()),
                HasSubstr("programs_test starts payments_client and does not name it"));
  }
}

}  // namespace
}  // namespace idempotency::internal::testing
