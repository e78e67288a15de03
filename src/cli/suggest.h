// What somebody may have meant who wrote a word that is none.
#pragma once

#include <string>

namespace CLI {  // NOLINT(readability-identifier-naming): the library's own name
class App;
}

namespace sallyport::cli {

// The whole command, or several, "or" between them; `path` is what leads to `app`. Empty: nothing comes near.
std::string nearest_command(const CLI::App& app, const std::string& path, const std::string& word);
// An option of this command; empty: nothing comes near.
std::string nearest_option(const CLI::App& app, const std::string& word);

}  // namespace sallyport::cli
