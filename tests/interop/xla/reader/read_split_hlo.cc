// XLA's own reader of split protos, as exported by TensorFlow's C++ library: read_split_hlo FILE [OUTPUT].
// Reports the result of reading a file with an xla.HloProto, and writes the message in deterministic serialization.
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl.h"
#include "google/protobuf/message.h"
#include "riegeli/base/any.h"
#include "riegeli/bytes/reader.h"
#include "riegeli/bytes/string_reader.h"
#include "xla/service/hlo.pb.h"

namespace xla {
absl::Status ReadSplitProto(riegeli::Any<riegeli::Reader*> reader, google::protobuf::Message& proto);
}

int main(int count, char** arguments) {
  std::ifstream input(arguments[1], std::ios::binary);
  std::stringstream content;
  content << input.rdbuf();
  const std::string bytes = content.str();
  xla::HloProto module;
  const absl::Status status = xla::ReadSplitProto(std::make_unique<riegeli::StringReader<std::string_view>>(bytes), module);
  std::cout << status.ToString() << "\n" << module.ByteSizeLong() << " bytes, " << module.hlo_module().computations_size()
            << " computations\n";
  if (!status.ok()) return 1;
  if (count > 2) {
    std::ofstream output(arguments[2], std::ios::binary);
    google::protobuf::io::OstreamOutputStream stream(&output);
    google::protobuf::io::CodedOutputStream writer(&stream);
    writer.SetSerializationDeterministic(true);
    module.SerializeToCodedStream(&writer);
  }
}
