#include "mailbox/quarantine.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "mailbox/limits.h"
#include "os/files.h"
#include "wire/json.h"

namespace sallyport::mailbox {
namespace {

// A message at its longest, every byte escaped, and what is said about it.
constexpr std::size_t kMaxFileBytes = 8 * kMaxMessageBytes;
constexpr std::string_view kSuffix = ".json";

std::string text(wire::Value value) { return std::string(value.as_string().value_or("")); }

Result<Refusal> parse(const std::string& json) {
  wire::Decoder decoder;
  TRY(const wire::Document document, decoder.parse(json));
  const wire::Value root = document.root();
  Refusal refusal;
  refusal.time_ms = root.get("time").as_int().value_or(0);
  refusal.name = text(root.get("name"));
  refusal.code = text(root.get("code"));
  refusal.reason = text(root.get("reason"));
  refusal.bytes = root.get("bytes").as_uint().value_or(0);
  return refusal;
}

}  // namespace

std::string Quarantine::path_of(const std::string& container, std::uint64_t number) const {
  return directory_ + "/" + container + "/" + std::to_string(number) + std::string(kSuffix);
}

void Quarantine::open(const std::string& container) {
  auto& refusals = refusals_[container];
  std::error_code fault;
  for (const auto& entry : std::filesystem::directory_iterator(directory_ + "/" + container, fault)) {
    const std::string name = entry.path().filename();
    Refusal refusal;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), refusal.number);
    if (error != std::errc() || end != name.data() + name.size() - kSuffix.size() || !name.ends_with(kSuffix)) continue;
    const auto json = os::read_private_file(entry.path(), kMaxFileBytes);
    auto parsed = json ? parse(*json) : Result<Refusal>(json.error());
    if (!parsed) continue;
    parsed->number = refusal.number;
    refusals.push_back(std::move(*parsed));
  }
  std::sort(refusals.begin(), refusals.end(), [](const auto& a, const auto& b) { return a.number < b.number; });
}

void Quarantine::add(const std::string& container, Refusal refusal, std::string_view content) {
  auto& refusals = refusals_[container];
  refusal.number = refusals.empty() ? 1 : refusals.back().number + 1;
  while (refusals.size() >= kMaxQuarantined) {
    ::unlink(path_of(container, refusals.front().number).c_str());
    refusals.pop_front();
  }
  const std::string json = wire::to_json([&](wire::JsonWriter& writer) {
    writer.begin_object()
        .member("time", refusal.time_ms)
        .member("name", refusal.name)
        .member("code", refusal.code)
        .member("reason", refusal.reason)
        .member("bytes", refusal.bytes)
        .member("content", content)
        .end_object();
  });
  if (os::open_private_directory(directory_ + "/" + container)) {
    [[maybe_unused]] const Status written =
        os::write_private_file(path_of(container, refusal.number), json, os::Durability::unsynced);
  }
  refusals.push_back(std::move(refusal));
}

const std::deque<Refusal>& Quarantine::of(const std::string& container) const {
  static const std::deque<Refusal> kNone;
  const auto found = refusals_.find(container);
  return found == refusals_.end() ? kNone : found->second;
}

void Quarantine::remove(const std::string& container) {
  refusals_.erase(container);
  std::error_code ignored;
  std::filesystem::remove_all(directory_ + "/" + container, ignored);
}

}  // namespace sallyport::mailbox
