// Replaces grpcurl where it is not available: gets every description of a service from server
// reflection. Takes the same arguments for the same actions:
//
//   reflection_client -plaintext ADDRESS list
//   reflection_client -plaintext ADDRESS describe SYMBOL
//   reflection_client -plaintext [-H 'key: value'] [-d JSON] ADDRESS SERVICE/METHOD
//
// Exit status: 0, 1 for a usage error, 64 + code for a failed call (as grpcurl).
#include <google/protobuf/descriptor_database.h>
#include <google/protobuf/dynamic_message.h>
#include <google/protobuf/util/json_util.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"

#include "core/protobuf_version.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"

namespace {

namespace reflection = grpc::reflection::v1alpha;
using google::protobuf::DescriptorPool;
using google::protobuf::FileDescriptorProto;

constexpr std::chrono::seconds kTimeout{10};

struct Arguments {
  std::string address;
  std::vector<std::string> words;
  std::string data = "{}";
  std::vector<std::pair<std::string, std::string>> metadata;
};

// Requests descriptors from the server, and keeps them as a database for a DescriptorPool.
class ReflectedSchema : public google::protobuf::DescriptorDatabase {
 public:
  explicit ReflectedSchema(const std::shared_ptr<grpc::Channel>& channel)
      : stub_(reflection::ServerReflection::NewStub(channel)) {}

  std::vector<std::string> Services() {
    reflection::ServerReflectionRequest request;
    request.set_list_services("*");
    std::vector<std::string> names;
    const reflection::ServerReflectionResponse response = Query(request);
    for (const auto& service : response.list_services_response().service()) {
      names.push_back(service.name());
    }
    return names;
  }

  bool FindFileByName(idempotency::internal::DescriptorName name,
                      FileDescriptorProto* output) override {
    reflection::ServerReflectionRequest request;
    request.set_file_by_filename(std::string(name));
    return Load(request) && known_.FindFileByName(name, output);
  }
  bool FindFileContainingSymbol(idempotency::internal::DescriptorName symbol,
                                FileDescriptorProto* output) override {
    reflection::ServerReflectionRequest request;
    request.set_file_containing_symbol(std::string(symbol));
    return Load(request) && known_.FindFileContainingSymbol(symbol, output);
  }
  bool FindFileContainingExtension(idempotency::internal::DescriptorName /*type*/, int /*number*/,
                                   FileDescriptorProto* /*output*/) override {
    return false;
  }

 private:
  bool Load(const reflection::ServerReflectionRequest& request) {
    const reflection::ServerReflectionResponse response = Query(request);
    for (const std::string& bytes : response.file_descriptor_response().file_descriptor_proto()) {
      FileDescriptorProto file;
      FileDescriptorProto seen;
      if (!file.ParseFromString(bytes)) return false;
      if (!known_.FindFileByName(file.name(), &seen)) known_.Add(file);
    }
    return response.has_file_descriptor_response();
  }

  reflection::ServerReflectionResponse Query(const reflection::ServerReflectionRequest& request) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kTimeout);
    auto stream = stub_->ServerReflectionInfo(&context);
    reflection::ServerReflectionResponse response;
    if (stream->Write(request)) stream->Read(&response);
    stream->WritesDone();
    const grpc::Status status = stream->Finish();
    if (!status.ok()) std::cerr << "reflection: " << status.error_message() << "\n";
    return response;
  }

  std::unique_ptr<reflection::ServerReflection::Stub> stub_;
  google::protobuf::SimpleDescriptorDatabase known_;
};

std::string Bytes(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string all;
  if (buffer.Dump(&slices).ok()) {
    for (const grpc::Slice& slice : slices) {
      all.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
    }
  }
  return all;
}

void PrintError(const grpc::Status& status) {
  std::cerr << "ERROR:\n  Code: " << status.error_code()
            << "\n  Message: " << status.error_message() << "\n";
  const absl::Status ours = idempotency::FromGrpcStatus(status);
  if (const auto reason = idempotency::ReasonOf(ours)) {
    std::cerr << "  Reason: " << idempotency::ReasonName(*reason) << "\n";
  }
}

int Call(const std::shared_ptr<grpc::Channel>& channel, const DescriptorPool& pool,
         const Arguments& arguments) {
  const std::vector<std::string> parts = absl::StrSplit(arguments.words[0], '/');
  const auto* service = pool.FindServiceByName(parts[0]);
  const auto* method =
      service == nullptr || parts.size() != 2 ? nullptr : service->FindMethodByName(parts[1]);
  if (method == nullptr) {
    std::cerr << "no such method: " << arguments.words[0] << "\n";
    return 1;
  }
  google::protobuf::DynamicMessageFactory factory;
  std::unique_ptr<google::protobuf::Message> request(
      factory.GetPrototype(method->input_type())->New());
  const auto parsed = google::protobuf::util::JsonStringToMessage(arguments.data, request.get());
  if (!parsed.ok()) {
    std::cerr << "the request does not fit " << method->input_type()->full_name() << ": "
              << parsed.ToString() << "\n";
    return 1;
  }
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kTimeout);
  for (const auto& [key, value] : arguments.metadata) context.AddMetadata(key, value);
  grpc::CompletionQueue queue;
  grpc::GenericStub stub(channel);
  const grpc::Slice slice(request->SerializeAsString());
  const grpc::ByteBuffer sent(&slice, 1);
  auto call = stub.PrepareUnaryCall(&context, "/" + arguments.words[0], sent, &queue);
  grpc::ByteBuffer received;
  grpc::Status status;
  call->StartCall();
  call->Finish(&received, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  if (!status.ok()) {
    PrintError(status);
    return 64 + status.error_code();
  }
  std::unique_ptr<google::protobuf::Message> response(
      factory.GetPrototype(method->output_type())->New());
  std::string json;
  google::protobuf::util::JsonPrintOptions pretty;
  pretty.add_whitespace = true;
  // As grpcurl prints what gRPC C++ reflects: its descriptors have no JSON names.
  pretty.preserve_proto_field_names = true;
  if (!response->ParseFromString(Bytes(received)) ||
      !google::protobuf::util::MessageToJsonString(*response, &json, pretty).ok()) {
    std::cerr << "the response does not fit " << method->output_type()->full_name() << "\n";
    return 1;
  }
  std::cout << json;
  return 0;
}

int Describe(const DescriptorPool& pool, const std::string& symbol) {
  if (const auto* service = pool.FindServiceByName(symbol)) {
    std::cout << service->DebugString();
    return 0;
  }
  if (const auto* message = pool.FindMessageTypeByName(symbol)) {
    std::cout << message->DebugString();
    return 0;
  }
  std::cerr << "no such symbol: " << symbol << "\n";
  return 1;
}

bool Parse(int argc, char** argv, Arguments* arguments) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "-plaintext") continue;
    if ((word == "-d" || word == "-H") && i + 1 < argc) {
      const std::string value = argv[++i];
      if (word == "-d") {
        arguments->data = value;
      } else {
        const std::pair<std::string, std::string> entry =
            absl::StrSplit(value, absl::MaxSplits(':', 1));
        arguments->metadata.emplace_back(entry.first, absl::StripAsciiWhitespace(entry.second));
      }
    } else if (arguments->address.empty()) {
      arguments->address = word;
    } else {
      arguments->words.push_back(word);
    }
  }
  return !arguments->words.empty();
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  if (!Parse(argc, argv, &arguments)) {
    std::cerr << "usage: reflection_client -plaintext [-d JSON] ADDRESS list|describe|METHOD\n";
    return 1;
  }
  auto channel = grpc::CreateChannel(arguments.address, grpc::InsecureChannelCredentials());
  ReflectedSchema schema(channel);
  if (arguments.words[0] == "list") {
    for (const std::string& service : schema.Services()) std::cout << service << "\n";
    return 0;
  }
  const DescriptorPool pool(&schema);
  if (arguments.words[0] == "describe") {
    return Describe(pool, arguments.words.size() > 1 ? arguments.words[1] : "");
  }
  return Call(channel, pool, arguments);
}
