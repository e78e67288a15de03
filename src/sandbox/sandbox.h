// Walls around a program: everything that other modules use of this one.
#pragma once

#include "sandbox/foreground.h"
#include "sandbox/launch.h"
#include "sandbox/spec.h"
#include "sandbox/steps.h"
#include "sandbox/violations.h"
