#include "tests/lowering/lowering_support.h"
