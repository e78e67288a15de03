// Everything in base: the vocabulary that all other modules speak.
#pragma once

#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/random.h"
#include "base/result.h"
#include "base/spin.h"
#include "base/task.h"
#include "base/unique_fd.h"
#include "base/utf8.h"
