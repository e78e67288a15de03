// The MCP bridge: see mcp/bridge.h for all of it, mcp/server.h for the protocol alone.
#pragma once

#include "mcp/bridge.h"
