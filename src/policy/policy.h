// Policy: who may do what.
#pragma once

#include "policy/engine.h"
#include "policy/profile.h"
#include "policy/rule.h"
#include "policy/tokens.h"
