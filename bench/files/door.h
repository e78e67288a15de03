// What a client of the warden sees: reads through the door and all walls, beside the MCP file server of npm.
#pragma once

#include <string>

namespace sallyport::bench {

struct DoorSetting {
  std::string daemon;       // sallyportd
  std::string node;         // runs the peer; empty: left out
  std::string peer_script;  // the file server's program
};

// `scratch` holds the files 1k and 100k; `tree` is what is searched.
void door_rows(const DoorSetting& setting, const std::string& scratch, const std::string& tree);

}  // namespace sallyport::bench
