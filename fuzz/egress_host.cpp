// Host names: the canonical form is its own canonical form, and nothing that looks like an address stays a name.
#include <cstdlib>

#include "egress/idn.h"
#include "policy/net.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sallyport;
  const auto demand = [](bool holds) {
    if (!holds) std::abort();
  };
  const std::string_view text = as_text({data, size});
  if (const auto host = egress::canonical_host(text)) {
    const auto again = egress::canonical_host(host->to_string());
    demand(again && *again == *host);
    demand(host->address.has_value() == host->name.empty());
    if (!host->address) {
      demand(!policy::parse_address(host->name) && host->name.size() <= 253 && host->name.back() != '.');
      for (const char c : host->name)
        demand((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.');
    }
  }
  if (const auto rule = policy::NetRule::parse(text)) {
    demand(rule->names(rule->host) == !rule->is_suffix);
    if (rule->is_suffix)
      demand(rule->names(*policy::parse_host("a." + rule->host.name)) || rule->host.name.size() > 250);
  }
  return 0;
}
