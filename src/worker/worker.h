// The file worker: what it may touch (Roots), what it can do (Service), and its loop (serve).
#pragma once

#include "worker/root.h"
#include "worker/serve.h"
#include "worker/service.h"
