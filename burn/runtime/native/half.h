/* See half.c. */
#ifndef BURN_HALF_H
#define BURN_HALF_H
#include <stdint.h>

float burn_truncdfhf2(double value);
float burn_truncsfhf2(float value);
float burn_truncdfbf2(double value);
float burn_truncsfbf2(float value);
float burn_extendhfsf2(float value);
#endif
