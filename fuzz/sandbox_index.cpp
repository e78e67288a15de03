// A repository's index, written by whoever was in the sandbox before: any bytes are read to an end, and what is found
// lies in them.
#include <cstdlib>

#include "base/bytes.h"
#include "sandbox/git_hash.h"
#include "sandbox/git_index.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sallyport;
  using namespace sallyport::sandbox;
  const auto demand = [](bool holds) {
    if (!holds) std::abort();
  };
  const std::string_view input = as_text({data, size});
  for (const std::size_t name_bytes : {kSha1Bytes, kSha256Bytes}) {
    const auto index = parse_index(input, name_bytes);
    const bool is_harmless = is_harmless_index(input, name_bytes);
    demand(index || !is_harmless);
    if (!index) continue;
    demand(index->base.empty() || index->base.size() == name_bytes);
    for (const auto& [path, name] : index->names) {
      demand(!is_harmless || stays_in_tree(path));
      demand(!path.empty() && path.find('\0') == std::string::npos);
      demand(name.size() == name_bytes && input.find(name) != std::string_view::npos);
    }
  }
  return 0;
}
