#include "server/process/reflected_files.h"

#include <grpcpp/support/status.h>

#include <set>
#include <utility>

#include "google/protobuf/descriptor.pb.h"

namespace idempotency::internal {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using grpc::reflection::v1::ServerReflectionRequest;
using grpc::reflection::v1::ServerReflectionResponse;

void WriteError(grpc::StatusCode code, const char* message, ServerReflectionResponse& response) {
  response.mutable_error_response()->set_error_code(code);
  response.mutable_error_response()->set_error_message(message);
}

const FileDescriptor* FileOfExtension(const DescriptorPool& pool,
                                      const grpc::reflection::v1::ExtensionRequest& request) {
  const auto* const type = pool.FindMessageTypeByName(request.containing_type());
  if (type == nullptr) return nullptr;
  const FieldDescriptor* const extension =
      pool.FindExtensionByNumber(type, request.extension_number());
  return extension == nullptr ? nullptr : extension->file();
}

// Imports before the files that import them.
void Collect(const FileDescriptor* file, std::set<const FileDescriptor*>& seen,
             std::vector<const FileDescriptor*>& files) {
  if (!seen.insert(file).second) return;
  for (int i = 0; i < file->dependency_count(); ++i) Collect(file->dependency(i), seen, files);
  files.push_back(file);
}

}  // namespace

ReflectedFiles::ReflectedFiles(std::vector<std::string> services)
    : pool_(*DescriptorPool::generated_pool()), services_(std::move(services)) {}

ServerReflectionResponse ReflectedFiles::Answer(const ServerReflectionRequest& request) {
  ServerReflectionResponse response;
  response.set_valid_host(request.host());
  *response.mutable_original_request() = request;
  switch (request.message_request_case()) {
    case ServerReflectionRequest::kFileByFilename:
      WriteFile(pool_.FindFileByName(request.file_by_filename()), response);
      break;
    case ServerReflectionRequest::kFileContainingSymbol:
      WriteFile(pool_.FindFileContainingSymbol(request.file_containing_symbol()), response);
      break;
    case ServerReflectionRequest::kFileContainingExtension:
      WriteFile(FileOfExtension(pool_, request.file_containing_extension()), response);
      break;
    case ServerReflectionRequest::kAllExtensionNumbersOfType:
      WriteExtensions(request.all_extension_numbers_of_type(), response);
      break;
    case ServerReflectionRequest::kListServices:
      for (const std::string& service : services_) {
        response.mutable_list_services_response()->add_service()->set_name(service);
      }
      break;
    case ServerReflectionRequest::MESSAGE_REQUEST_NOT_SET:
      WriteError(grpc::StatusCode::INVALID_ARGUMENT, "the request names nothing", response);
      break;
  }
  return response;
}

void ReflectedFiles::WriteFile(const File* file, Response& response) {
  if (file == nullptr) return WriteError(grpc::StatusCode::NOT_FOUND, "not found", response);
  std::set<const File*> seen;
  std::vector<const File*> files;
  Collect(file, seen, files);
  MutexLock lock(mutex_);
  // The requested one first.
  for (auto it = files.rbegin(); it != files.rend(); ++it) {
    response.mutable_file_descriptor_response()->add_file_descriptor_proto(SerializedFile(**it));
  }
}

void ReflectedFiles::WriteExtensions(const std::string& type, Response& response) const {
  const auto* const message = pool_.FindMessageTypeByName(type);
  if (message == nullptr) return WriteError(grpc::StatusCode::NOT_FOUND, "not found", response);
  auto& written = *response.mutable_all_extension_numbers_response();
  written.set_base_type_name(type);
  std::vector<const FieldDescriptor*> extensions;
  pool_.FindAllExtensions(message, &extensions);
  for (const FieldDescriptor* const extension : extensions) {
    written.add_extension_number(extension->number());
  }
}

const std::string& ReflectedFiles::SerializedFile(const File& file) {
  const auto [found, added] = serialized_.try_emplace(&file);
  if (added) {
    google::protobuf::FileDescriptorProto proto;
    file.CopyTo(&proto);
    found->second = proto.SerializeAsString();
  }
  return found->second;
}

}  // namespace idempotency::internal
