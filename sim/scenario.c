#include "sim/world.h"
