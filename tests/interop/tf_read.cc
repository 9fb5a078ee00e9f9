// Reads chunked messages with the reader of an installed TensorFlow, many in one process.
//
//   tf_read [LIST]               LIST (default: standard input) has lines of PREFIX, KIND and OUT, separated by tabs
//   tf_read --descriptors OUT [FILE...]
//   tf_read --canonical SET TYPE
//
// KIND is savedmodel, graphdef, metagraphdef or tensorproto: Merger::Read(PREFIX), which takes PREFIX.cpb or else
// PREFIX.pb. With the KIND fingerprint, PREFIX is a SavedModel directory and the result is its FingerprintDef. The result
// is written to OUT in deterministic serialization, or discarded if OUT is "-". Each line is answered immediately by one
// line on standard output, so the caller knows which line was being read if TensorFlow aborts:
//
//   ok <TAB> seconds of the read <TAB> bytes of the result <TAB> PREFIX
//   refused <TAB> seconds of the read <TAB> status <TAB> PREFIX
//
// --descriptors writes the FileDescriptorSet of SavedModel's and ChunkMetadata's files, of FILE... and of their imports.
//
// --canonical reads messages of a type from standard input, one in hexadecimal digits per line, and answers each with its deterministic
// serialization in the same form, or with "refused". SET is the FileDescriptorSet with the type.
//
// Exit: 0 when every line was answered, refusals included; 2 on wrong usage or when a file cannot be written.

#include <chrono>
#include <fstream>
#include <iostream>
#include <memory>
#include <set>
#include <sstream>
#include <string>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"
#include "google/protobuf/dynamic_message.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "tensorflow/cc/saved_model/fingerprinting.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/tensor.pb.h"
#include "tensorflow/core/protobuf/fingerprint.pb.h"
#include "tensorflow/core/protobuf/meta_graph.pb.h"
#include "tensorflow/core/protobuf/saved_model.pb.h"
#include "tensorflow/tools/proto_splitter/chunk.pb.h"
#include "tensorflow/tools/proto_splitter/merge.h"

namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::FileDescriptor;
using google::protobuf::FileDescriptorSet;
using google::protobuf::Message;

bool WriteDeterministic(const Message& message, const std::string& path) {
  std::ofstream file(path, std::ios::binary);
  {
    google::protobuf::io::OstreamOutputStream stream(&file);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    if (!message.SerializeToCodedStream(&coded)) return false;
  }
  file.close();
  return !file.fail();
}

std::unique_ptr<Message> NewMessage(const std::string& kind) {
  if (kind == "savedmodel") return std::make_unique<tensorflow::SavedModel>();
  if (kind == "graphdef") return std::make_unique<tensorflow::GraphDef>();
  if (kind == "metagraphdef") return std::make_unique<tensorflow::MetaGraphDef>();
  if (kind == "tensorproto") return std::make_unique<tensorflow::TensorProto>();
  if (kind == "fingerprint") return std::make_unique<tensorflow::FingerprintDef>();
  return nullptr;
}

std::string OneLine(std::string text) {
  for (char& c : text) {
    if (c == '\n' || c == '\t' || c == '\r') c = ' ';
  }
  return text;
}

int ReadAll(std::istream& list) {
  std::string line;
  while (std::getline(list, line)) {
    if (line.empty()) continue;
    std::istringstream fields(line);
    std::string prefix, kind, out;
    std::getline(fields, prefix, '\t');
    std::getline(fields, kind, '\t');
    std::getline(fields, out, '\t');
    std::unique_ptr<Message> message = NewMessage(kind);
    if (message == nullptr || out.empty()) {
      std::cerr << "tf_read: not PREFIX, KIND and OUT: " << line << "\n";
      return 2;
    }
    std::string refusal;
    const auto start = std::chrono::steady_clock::now();
    if (kind == "fingerprint") {
      auto fingerprint = tensorflow::saved_model::fingerprinting::CreateFingerprintDef(prefix);
      if (fingerprint.ok()) message->CopyFrom(*fingerprint);
      else refusal = fingerprint.status().ToString();
    } else {
      const auto status = tensorflow::tools::proto_splitter::Merger::Read(prefix, message.get());
      if (!status.ok()) refusal = status.ToString();
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (refusal.empty()) {
      if (out != "-" && !WriteDeterministic(*message, out)) {
        std::cerr << "tf_read: cannot write " << out << "\n";
        return 2;
      }
      std::cout << "ok\t" << took.count() << "\t" << message->ByteSizeLong();
    } else {
      std::cout << "refused\t" << took.count() << "\t" << OneLine(refusal);
    }
    std::cout << "\t" << prefix << std::endl;
  }
  return 0;
}

void AddWithImports(const FileDescriptor* file, std::set<const FileDescriptor*>& seen, FileDescriptorSet& set) {
  if (!seen.insert(file).second) return;
  for (int i = 0; i < file->dependency_count(); ++i) AddWithImports(file->dependency(i), seen, set);
  file->CopyTo(set.add_file());
}

int WriteDescriptors(int count, char** arguments) {
  FileDescriptorSet set;
  std::set<const FileDescriptor*> seen;
  AddWithImports(tensorflow::SavedModel::descriptor()->file(), seen, set);
  AddWithImports(tensorflow::proto_splitter::ChunkMetadata::descriptor()->file(), seen, set);
  for (int i = 1; i < count; ++i) {
    // Files unknown to the library are omitted. The caller notices this when it compares.
    if (const FileDescriptor* file = DescriptorPool::generated_pool()->FindFileByName(arguments[i])) {
      AddWithImports(file, seen, set);
    }
  }
  return WriteDeterministic(set, arguments[0]) ? 0 : 2;
}

// Answers each line with its message in deterministic serialization. Required fields may be missing.
int Canonicalize(const std::string& path, const std::string& type) {
  std::ifstream file(path, std::ios::binary);
  FileDescriptorSet set;
  DescriptorPool pool;
  if (!set.ParseFromIstream(&file)) return 2;
  for (const auto& one : set.file()) {
    if (pool.BuildFile(one) == nullptr) return 2;
  }
  const auto* descriptor = pool.FindMessageTypeByName(type);
  if (descriptor == nullptr) return 2;
  google::protobuf::DynamicMessageFactory factory(&pool);
  std::string line;
  while (std::getline(std::cin, line)) {
    std::string bytes;
    for (size_t at = 0; at + 1 < line.size(); at += 2) {
      bytes.push_back(static_cast<char>(std::stoi(line.substr(at, 2), nullptr, 16)));
    }
    std::unique_ptr<Message> message(factory.GetPrototype(descriptor)->New());
    if (!message->ParsePartialFromString(bytes)) {
      std::cout << "refused" << std::endl;
      continue;
    }
    std::string written;
    {
      google::protobuf::io::StringOutputStream stream(&written);
      google::protobuf::io::CodedOutputStream coded(&stream);
      coded.SetSerializationDeterministic(true);
      message->SerializePartialToCodedStream(&coded);
    }
    static const char digits[] = "0123456789abcdef";
    for (unsigned char byte : written) std::cout << digits[byte >> 4] << digits[byte & 15];
    std::cout << std::endl;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc >= 3 && std::string(argv[1]) == "--descriptors") return WriteDescriptors(argc - 2, argv + 2);
  if (argc == 4 && std::string(argv[1]) == "--canonical") return Canonicalize(argv[2], argv[3]);
  if (argc == 1) return ReadAll(std::cin);
  if (argc == 2 && argv[1][0] != '-') {
    std::ifstream list(argv[1]);
    if (list) return ReadAll(list);
  }
  std::cerr << "usage: tf_read [LIST] | tf_read --descriptors OUT [FILE...] | tf_read --canonical SET TYPE\n";
  return 2;
}
