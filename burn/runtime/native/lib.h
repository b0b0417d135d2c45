/* Library code that compiled programs call for operators that are not loops over elements (sort, unique ...). The
 * functions are in lib_*.c; each is declared here and has its line in symbols.c. They allocate through burn_rt_alloc,
 * report through burn_rt_fail and return; and since a call into burn_rt.h may end the run without returning, they hold
 * no memory but what burn_rt_alloc gave them.
 */
#ifndef BURN_LIB_H
#define BURN_LIB_H

#include "burn_rt.h"

#endif
