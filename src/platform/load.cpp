#include "platform/load.h"

#include <filesystem>

#include "os/files.h"
#include "os/paths.h"
#include "platform/tree_toml.h"

namespace sallyport::platform {
namespace {

constexpr std::size_t kMaxConfigBytes = 1U << 20;

// Nothing if there is no such file; a link to nothing is a fault, not a default.
Result<std::optional<std::string>> read_if_there(const std::string& path) {
  std::error_code failure;
  if (std::filesystem::symlink_status(path, failure).type() == std::filesystem::file_type::not_found) {
    return std::optional<std::string>();
  }
  const std::string real = std::filesystem::canonical(path, failure).string();
  if (failure) return Error::make(Code::io_error, "cannot read " + path + ": " + failure.message());
  auto text = os::read_small_file(real, kMaxConfigBytes);
  if (!text) return Error::make(text.error().code, "cannot read " + path + ": " + text.error().message);
  return std::optional<std::string>(std::move(*text));
}

}  // namespace

Result<Config> load_config(const std::string& sallyport_toml) {
  std::optional<Config> config;
  TRY(const auto text, read_if_there(sallyport_toml));
  if (text) {
    TRY(const toml::table root, policy::toml_table::parse(*text, sallyport_toml));
    if (const toml::node* section = root.get("platform")) {
      TRY(config, parse_config(tree_from_toml(*section), sallyport_toml));
    }
  }
  const std::string beside = os::platform_file_beside(sallyport_toml);
  TRY(const auto json, read_if_there(beside));
  if (json && config) {
    return Error::make(Code::invalid_params,
                       beside + ": " + sallyport_toml + " has a [platform] too; keep one of them");
  }
  if (json) {
    TRY(const Node tree, tree_from_json(*json, beside));
    TRY(config, parse_config(tree, beside));
  }
  return config ? std::move(*config) : Config();
}

}  // namespace sallyport::platform
