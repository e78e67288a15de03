// The roles `llm` and `embeddings`: over OpenAI-compatible HTTP, and the embedded stand-ins.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "adapters/adapter.h"

namespace sallyport::adapters {

std::unique_ptr<Adapter> make_echo_llm();
std::unique_ptr<Adapter> make_openai_llm(const platform::Config& config, Machinery& machinery);
std::unique_ptr<Adapter> make_hashing_embeddings(const platform::Options& options);
std::unique_ptr<Adapter> make_openai_embeddings(const platform::Config& config, Machinery& machinery);

// Messages are {"role": "system" | "user" | "assistant", "content": text}. INVALID_PARAMS if they are not.
Status check_messages(wire::Value messages);

struct Completion {
  std::string text, finish_reason;
  std::optional<std::int64_t> input_tokens = {}, output_tokens = {};  // as far as the backend says
};
ipc::Reply completion_reply(ipc::Call& call, const Completion& completion, bool is_model);
// {"count", "dimensions", "usage", "vectors": stream}; "vector" where one text was asked for. "usage" only where the
// tokens are known.
ipc::Reply embedding_reply(ipc::Call& call, const std::vector<std::vector<float>>& vectors,
                           std::optional<std::int64_t> tokens, bool is_model);
ipc::Reply dimensions_reply(ipc::Call& call, std::size_t dimensions, std::optional<std::int64_t> tokens, bool is_model);
std::vector<std::string_view> texts_to_embed(ipc::Call& call);

}  // namespace sallyport::adapters
