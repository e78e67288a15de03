// The moving parts of a door: loop, listeners, identity, sessions, calls, streams.
#pragma once

#include "ipc/account.h"
#include "ipc/call.h"
#include "ipc/forward.h"
#include "ipc/identity.h"
#include "ipc/listener.h"
#include "ipc/loop.h"
#include "ipc/loopback_gate.h"
#include "ipc/oneshot.h"
#include "ipc/session.h"
#include "ipc/sessions.h"
#include "ipc/streams.h"
