// The wire: frames, messages, streams, the loopback handshake, and their limits. No I/O in this module.
#pragma once

#include "wire/crypto.h"
#include "wire/frame.h"
#include "wire/handshake.h"
#include "wire/json.h"
#include "wire/limits.h"
#include "wire/message.h"
#include "wire/page.h"
#include "wire/schema.h"
#include "wire/streams.h"
