// A plugin that remembers: each invocation adds a line to its history and says how many there are. It runs in a
// container of its own that is gone afterwards; what it keeps is kept by the host, under its profile's name.
//
//   sallyport run --profile plugin -- plugin-with-memory "what is asked now"
#include <sallyport/platform/platform.h>

#include <cstdio>
#include <string>

using namespace sallyport;

namespace {

int fail(const char* what, const Error& error) {
  std::fprintf(stderr, "%s: %s\n", what, error.describe().c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  auto platform = platform::init_platform();
  if (!platform) return fail("no platform", platform.error());
  auto history = (*platform)->storage("history");
  const auto earlier = history.list();
  if (!earlier) return fail("cannot list", earlier.error());
  for (const auto& entry : *earlier) {
    const auto text = history.read(entry.key);
    if (!text) return fail("cannot read", text.error());
    std::printf("%s: %s\n", entry.key.c_str(), text->value_or("").c_str());
  }
  char key[16];
  std::snprintf(key, sizeof key, "%06zu", earlier->size() + 1);
  const auto written = history.write(key, argc > 1 ? argv[1] : "");
  if (!written) return fail("cannot write", written.error());
  if (written->is_noop) std::printf("nothing is kept: %s\n", written->reason.c_str());
  std::printf("%zu remembered\n", earlier->size() + (written->is_noop ? 0 : 1));
  return 0;
}
