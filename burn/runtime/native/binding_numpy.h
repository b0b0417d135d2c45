// numpy's own C interface, which the files that include this share. It is used because a small model's run takes a few
// microseconds, less than reading one array's address and shape through Python attributes.
#ifndef BURN_BINDING_NUMPY_H
#define BURN_BINDING_NUMPY_H

#include "binding.h"

#define NPY_NO_DEPRECATED_API NPY_1_22_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL burn_numpy
#ifndef BURN_IMPORTS_NUMPY
#define NO_IMPORT_ARRAY
#endif
#include <numpy/arrayobject.h>

#endif
