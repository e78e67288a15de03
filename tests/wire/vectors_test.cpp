// vectors/NAME.json says what is meant, vectors/NAME.bin is how it looks on the wire. Each is made from
// the other here and compared. SALLYPORT_UPDATE_VECTORS=1 writes both anew from the table below.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "support/wire.h"
#include "vector_table.h"

namespace sallyport::wire {
namespace {

using sallyport::testing::frame_of;
using sallyport::testing::text_of;

std::string path_of(std::string_view name, std::string_view extension) {
  return std::string(SALLYPORT_VECTORS) + "/" + std::string(name) + std::string(extension);
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path << " is missing; run with SALLYPORT_UPDATE_VECTORS=1";
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_file(const std::string& path, std::string_view content) {
  std::ofstream(path, std::ios::binary).write(content.data(), static_cast<std::streamsize>(content.size()));
}

std::string string_at(Value object, std::string_view key) {
  return std::string(object.get(key).as_string().value_or(""));
}

template <typename Array>
Array array_at(Value object, std::string_view key) {
  const auto bytes = from_hex(string_at(object, key));
  Array array{};
  EXPECT_TRUE(bytes && bytes->size() == array.size()) << key;
  if (bytes && bytes->size() == array.size()) std::copy(bytes->begin(), bytes->end(), array.begin());
  return array;
}

// ---- .json -> .bin ----

Bytes handshake_frames(Value meant) {
  const Value bound = meant.get("binding");
  const Binding binding{string_at(bound, "address"), string_at(bound, "boot_id"), *bound.get("pid").as_uint(),
                        *bound.get("start_time").as_uint()};
  const auto token = array_at<Token>(meant, "token");
  HandshakeClient client(token, binding, array_at<Nonce>(meant, "client_nonce"));
  HandshakeServer server(token, binding, array_at<Nonce>(meant, "server_nonce"));
  Bytes hello, challenge, proof, nothing;
  client.start(hello);
  EXPECT_TRUE(server.receive(hello.view().subspan(kHeaderBytes), challenge));
  EXPECT_TRUE(client.receive(challenge.view().subspan(kHeaderBytes), proof));
  EXPECT_TRUE(server.receive(proof.view().subspan(kHeaderBytes), nothing));
  EXPECT_TRUE(server.is_done());
  const std::string step = string_at(meant, "step");
  return step == "hello" ? std::move(hello) : step == "challenge" ? std::move(challenge) : std::move(proof);
}

std::string encode(Value meant) {
  const std::string kind = string_at(meant, "kind"), id = string_at(meant, "id"), method = string_at(meant, "method");
  const std::string params = meant.get("params") ? meant.get("params").to_json() : "";
  Bytes out;
  if (kind == "request") {
    const std::string token = string_at(meant, "token");
    RequestHead head{.id = id, .method = method, .deadline_ms = {}, .token = token};
    if (const auto deadline = meant.get("deadline_ms").as_int())
      head.deadline_ms = static_cast<std::uint32_t>(*deadline);
    EXPECT_TRUE(append_request(out, head, params));
  } else if (kind == "result") {
    EXPECT_TRUE(append_result(out, id, meant.get("result").to_json()));
  } else if (kind == "error") {
    append_error(out, id, read_error(meant.get("error")));
  } else if (kind == "event") {
    EXPECT_TRUE(append_event(out, id, method, params));
  } else if (kind == "chunk") {
    const auto data = from_hex(string_at(meant, "data"));
    EXPECT_TRUE(append_chunk(out, static_cast<std::uint32_t>(*meant.get("stream").as_int()), as_bytes(data.value())));
  } else if (kind == "handshake") {
    out = handshake_frames(meant);
  } else if (kind == "malformed") {
    return meant.get("body") ? frame_of(string_at(meant, "body")) : frame_of(*from_hex(string_at(meant, "body_hex")));
  } else if (kind == "broken") {
    return *from_hex(string_at(meant, "bytes_hex"));
  } else {
    ADD_FAILURE() << "unknown kind " << kind;
  }
  return text_of(out);
}

// ---- .bin -> .json ----

void describe_message(JsonWriter& json, Message& message) {
  const char* kind = message.type == MessageType::request ? "request"
                     : message.type == MessageType::event ? "event"
                     : message.error                      ? "error"
                                                          : "result";
  json.begin_object().member("kind", kind);
  if (!message.id.empty()) json.member("id", message.id);
  if (!message.method.empty()) json.member("method", message.method);
  if (message.params) json.member("params", message.params);
  if (message.deadline_ms) json.member("deadline_ms", *message.deadline_ms);
  if (!message.token.empty()) json.member("token", message.token);
  if (message.result) json.member("result", message.result);
  if (message.error) {
    json.key("error");
    write_error(json, *message.error);
  }
  json.end_object();
}

void describe_malformed(JsonWriter& json, ByteView body, const Malformed& malformed, Value meant) {
  json.begin_object().member("kind", "malformed");
  if (meant.get("body")) {
    json.member("body", as_text(body));
  } else {
    json.member("body_hex", to_hex(body));
  }
  json.member("error", to_string(malformed.error.code)).key("answers_to");
  if (malformed.id.empty()) {
    json.null();
  } else {
    json.value(malformed.id);
  }
  json.end_object();
}

// `meant` only chooses between two spellings of the same bytes, and lends what a mac cannot show.
std::string describe(std::string_view bytes, Value meant) {
  FrameReader reader;
  reader.feed(as_bytes(bytes));
  const auto frame = reader.next();
  const Status end = frame ? reader.finish() : Status(frame.error());
  return to_json([&](JsonWriter& json) {
    if (!end) {
      json.begin_object().member("kind", "broken").member("bytes_hex", to_hex(as_bytes(bytes)));
      json.member("error", to_string(end.error().code)).end_object();
      return;
    }
    const ByteView body = **frame;
    if (frame_kind(body) == FrameKind::handshake) return void(json.value(meant));
    if (const auto chunk = parse_chunk(body); chunk) {
      json.begin_object().member("kind", "chunk").member("stream", chunk->stream);
      json.member("data", to_hex(chunk->data)).end_object();
      return;
    } else if (frame_kind(body) == FrameKind::chunk) {
      return describe_malformed(json, body, {"", chunk.error()}, meant);
    }
    Decoder decoder;
    auto message = decode_message(decoder, body);
    if (message) return describe_message(json, *message);
    describe_malformed(json, body, message.malformed(), meant);
  });
}

class Vectors : public ::testing::TestWithParam<Vector> {};

TEST_P(Vectors, EncodeAndDecodeAsWritten) {
  const Vector& vector = GetParam();
  Decoder decoder;
  const char* update = std::getenv("SALLYPORT_UPDATE_VECTORS");
  if (update != nullptr && std::string_view(update) == "1") {
    const auto table = decoder.parse(vector.json);
    ASSERT_TRUE(table) << vector.json;
    write_file(path_of(vector.name, ".json"), table->root().to_json() + "\n");
    write_file(path_of(vector.name, ".bin"), encode(table->root()));
  }
  const std::string bin = read_file(path_of(vector.name, ".bin"));
  std::string json = read_file(path_of(vector.name, ".json"));
  ASSERT_TRUE(json.ends_with('\n'));
  json.pop_back();
  const auto meant = decoder.parse(json);
  ASSERT_TRUE(meant);
  EXPECT_EQ(to_hex(as_bytes(encode(meant->root()))), to_hex(as_bytes(bin)));
  EXPECT_EQ(describe(bin, meant->root()), json);
  const auto table = decoder.parse(vector.json);
  ASSERT_TRUE(table) << vector.json;
  EXPECT_EQ(table->root().to_json(), json) << "the file is older than the table";
}

std::string name_of(const ::testing::TestParamInfo<Vector>& test) { return test.param.name; }

INSTANTIATE_TEST_SUITE_P(Wire, Vectors, ::testing::ValuesIn(kVectors), name_of);

TEST(VectorFiles, AreThoseOfTheTableAndNoOthers) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(SALLYPORT_VECTORS)) {
    if (entry.path().extension() == ".md") continue;
    ++files;
    const bool is_listed = std::any_of(std::begin(kVectors), std::end(kVectors),
                                       [&](const Vector& vector) { return entry.path().stem() == vector.name; });
    EXPECT_TRUE(is_listed) << entry.path();
  }
  EXPECT_EQ(files, 2 * std::size(kVectors));
}

TEST(VectorFiles, CoverEveryErrorCode) {
  for (int i = 0; i <= static_cast<int>(Code::internal_error); ++i) {
    const std::string quoted = "\"code\":\"" + std::string(to_string(static_cast<Code>(i))) + "\"";
    EXPECT_TRUE(std::any_of(std::begin(kVectors), std::end(kVectors), [&](const Vector& vector) {
      return std::string_view(vector.json).find(quoted) != std::string_view::npos;
    })) << quoted;
  }
}

}  // namespace
}  // namespace sallyport::wire
