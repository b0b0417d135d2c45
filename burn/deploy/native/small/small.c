/* See small.h. In front of this lie the model's tables. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checksum.c"
#ifndef BURN_ARENA /* else it was planned when the program was compiled */
#include "plan.c"
#endif
#include "sizes.c"

#define burn_model_fail(...) (void)0 /* who opens weights says what failed */
#include "weights.c"
#undef burn_model_fail

#include "memory.c"
#include "cpu.c"
#include "run.c"
#include "steps.c"
#include "interface.c"
