#include "server/process/reflected_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "google/protobuf/descriptor.pb.h"

#include "idempotency/v1/idempotency_service.pb.h"
#include "idempotency/v1/options.pb.h"

namespace idempotency::internal {
namespace {

using grpc::reflection::v1::ServerReflectionRequest;
using grpc::reflection::v1::ServerReflectionResponse;
using ::testing::Contains;
using ::testing::ElementsAre;

constexpr int kInvalidArgument = 3;
constexpr int kNotFound = 5;
constexpr char kServiceFile[] = "idempotency/v1/idempotency_service.proto";

ServerReflectionResponse Answer(const ServerReflectionRequest& request) {
  // Linked, so that their files are found.
  v1::ReserveRequest::descriptor();
  v1::Policy::descriptor();
  return ReflectedFiles({"a.A", "b.B"}).Answer(request);
}

ServerReflectionResponse OfFile(const std::string& name) {
  ServerReflectionRequest request;
  request.set_file_by_filename(name);
  return Answer(request);
}

ServerReflectionResponse OfSymbol(const std::string& name) {
  ServerReflectionRequest request;
  request.set_file_containing_symbol(name);
  return Answer(request);
}

std::vector<std::string> FilesIn(const ServerReflectionResponse& response) {
  std::vector<std::string> names;
  for (const std::string& bytes : response.file_descriptor_response().file_descriptor_proto()) {
    google::protobuf::FileDescriptorProto file;
    EXPECT_TRUE(file.ParseFromString(bytes));
    names.push_back(file.name());
  }
  return names;
}

TEST(ReflectedFilesTest, ListsTheServices) {
  ServerReflectionRequest request;
  request.set_host("somewhere");
  request.set_list_services("*");
  const ServerReflectionResponse response = Answer(request);
  std::vector<std::string> names;
  for (const auto& service : response.list_services_response().service()) {
    names.push_back(service.name());
  }
  EXPECT_THAT(names, ElementsAre("a.A", "b.B"));
  EXPECT_EQ(response.valid_host(), "somewhere");
  EXPECT_EQ(response.original_request().list_services(), "*");
}

TEST(ReflectedFilesTest, AFileComesFirstAndWithItsImports) {
  for (const ServerReflectionResponse& response :
       {OfFile(kServiceFile), OfSymbol("idempotency.v1.IdempotencyService"),
        OfSymbol("idempotency.v1.IdempotencyService.Reserve"),
        OfSymbol("idempotency.v1.ReserveRequest.record_key")}) {
    const std::vector<std::string> files = FilesIn(response);
    ASSERT_FALSE(files.empty()) << response.ShortDebugString();
    EXPECT_EQ(files.front(), kServiceFile);
    EXPECT_THAT(files, Contains("idempotency/v1/record.proto").Times(1));
    EXPECT_THAT(files, Contains("google/protobuf/timestamp.proto").Times(1));
  }
}

TEST(ReflectedFilesTest, FindsExtensions) {
  ServerReflectionRequest request;
  request.set_all_extension_numbers_of_type("google.protobuf.MethodOptions");
  const ServerReflectionResponse numbers = Answer(request);
  ASSERT_GT(numbers.all_extension_numbers_response().extension_number_size(), 0);
  request.mutable_file_containing_extension()->set_containing_type("google.protobuf.MethodOptions");
  request.mutable_file_containing_extension()->set_extension_number(
      numbers.all_extension_numbers_response().extension_number(0));
  EXPECT_EQ(FilesIn(Answer(request)).front(), "idempotency/v1/options.proto");
}

TEST(ReflectedFilesTest, WhatIsNotThereIsNotFound) {
  ServerReflectionRequest extension;
  extension.mutable_file_containing_extension()->set_containing_type("idempotency.v1.Record");
  extension.mutable_file_containing_extension()->set_extension_number(-1);
  ServerReflectionRequest numbers;
  numbers.set_all_extension_numbers_of_type("no.Message");
  for (const ServerReflectionResponse& response :
       {OfFile("no.proto"), OfFile(""), OfSymbol("no.Symbol"), OfSymbol(""), OfSymbol("..."),
        Answer(extension), Answer(numbers)}) {
    EXPECT_EQ(response.error_response().error_code(), kNotFound) << response.ShortDebugString();
  }
  EXPECT_EQ(Answer({}).error_response().error_code(), kInvalidArgument);
}

}  // namespace
}  // namespace idempotency::internal
