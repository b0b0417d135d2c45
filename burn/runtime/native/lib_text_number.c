/* Numbers as text and back. A float is written with the fewest digits that give it again, as Python writes it. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* strtod_l */
#endif
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __APPLE__
#include <xlocale.h>
#endif

#include "heap.h"
#include "lib.h"
#include "lib_keys.h"

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* Rounds to the type's precision: mantissa bits and the exponent of its smallest normal number. */
static double rounded(int64_t dtype, double x) {
    int digits = dtype == BURN_F64 ? 53 : dtype == BURN_F32 ? 24 : dtype == BURN_F16 ? 11 : 8;
    int least = dtype == BURN_F64 ? -1021 : dtype == BURN_F16 ? -13 : -125, exponent;
    if (digits == 53 || x == 0)
        return x;
    frexp(x, &exponent);
    double unit = ldexp(1, (exponent < least ? least : exponent) - digits);
    return nearbyint(x / unit) * unit;
}

/* Writes a finite float to `to` (at least 32 bytes); returns the length. */
static int write_float(int64_t dtype, double x, char *to) {
    char text[40], digits[24];
    for (int precision = 0; precision < 17; precision++) {
        snprintf(text, sizeof text, "%.*e", precision, x);
        if (rounded(dtype, strtod(text, NULL)) == x)
            break;
    }
    int count = 0, length = 0, exponent = atoi(strchr(text, 'e') + 1);
    for (const char *c = text; *c != 'e'; c++)
        if (*c >= '0' && *c <= '9')
            digits[count++] = *c;
    while (count > 1 && digits[count - 1] == '0')
        count--;
    if (text[0] == '-')
        to[length++] = '-';
    if (exponent < -4 || exponent >= 16) {
        to[length++] = digits[0];
        if (count > 1)
            to[length++] = '.';
        memcpy(to + length, digits + 1, (size_t)(count - 1));
        length += count - 1;
        return length + sprintf(to + length, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
    }
    for (int position = exponent < 0 ? 0 : exponent; position >= 0 || exponent - position < count; position--) {
        if (position == -1)
            to[length++] = '.';
        int at = exponent - position;
        to[length++] = at >= 0 && at < count ? digits[at] : '0';
    }
    if (count <= exponent + 1)
        length += sprintf(to + length, ".0");
    return length;
}

static int write_number(int64_t dtype, const void *x, int64_t i, char *to) {
    switch (dtype) {
    case BURN_BOOL:
        return sprintf(to, "%s", ((const uint8_t *)x)[i] ? "True" : "False");
    case BURN_I64:
        return sprintf(to, "%lld", (long long)((const int64_t *)x)[i]);
    case BURN_U64:
        return sprintf(to, "%llu", (unsigned long long)((const uint64_t *)x)[i]);
    default:
        break;
    }
    double value = ((const double *)x)[i];
    if (isnan(value))
        return sprintf(to, "nan");
    if (isinf(value))
        return sprintf(to, value < 0 ? "-inf" : "inf");
    return write_float(dtype, value, to);
}

int burn_lib_number_text(int64_t dtype, const void *number, char *to) { return write_number(dtype, number, 0, to); }

/* Floats come as f64, with the type whose precision they have. */
int32_t burn_lib_text_write(burn_run *run, int64_t dtype, int64_t count, const void *x, int64_t *texts) {
    char text[64];
    for (int64_t i = 0; i < count; i++)
        if (!burn_text_intern(burn_run_texts(run), (burn_span){text, write_number(dtype, x, i, text)}, &texts[i]))
            burn_rt_fail(run, BURN_OUT_OF_MEMORY, -1, 64);
    return burn_rt_status(run);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static int is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* Decimal digits, a point and an exponent, or inf, infinity, nan in any case; no hexadecimal numbers. */
static int is_number(const char *text) {
    text += *text == '-' || *text == '+';
    if (strcasecmp(text, "inf") == 0 || strcasecmp(text, "infinity") == 0 || strcasecmp(text, "nan") == 0)
        return 1;
    size_t whole = strspn(text, "0123456789"), part = 0;
    text += whole;
    if (*text == '.') {
        part = strspn(text + 1, "0123456789");
        text += 1 + part;
    }
    if (!whole && !part)
        return 0;
    if (*text == 'e' || *text == 'E') {
        text += 1 + (text[1] == '-' || text[1] == '+');
        size_t exponent = strspn(text, "0123456789");
        if (!exponent)
            return 0;
        text += exponent;
    }
    return !*text;
}

/* The point is a point whatever the process's locale; that of C is made twice at worst. */
#ifdef _WIN32
static double parse_float(const char *text) {
    static _locale_t plain;
    if (!plain)
        plain = _create_locale(LC_ALL, "C");
    return plain ? _strtod_l(text, NULL, plain) : strtod(text, NULL);
}
#else
static double parse_float(const char *text) {
    static locale_t plain;
    if (!plain)
        plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return plain ? strtod_l(text, NULL, plain) : strtod(text, NULL);
}
#endif

/* False where the text is no number of the type. */
static int parse(int64_t dtype, const char *text, void *numbers, int64_t i) {
    size_t sign = *text == '-' || *text == '+';
    if (dtype == BURN_F64) {
        if (!is_number(text))
            return 0;
        ((double *)numbers)[i] = parse_float(text);
        return 1;
    }
    if (!text[sign] || strspn(text + sign, "0123456789") != strlen(text + sign))
        return 0;
    errno = 0;
    if (dtype == BURN_I64)
        ((int64_t *)numbers)[i] = strtoll(text, NULL, 10);
    else
        ((uint64_t *)numbers)[i] = *text == '-' ? 0 : strtoull(text, NULL, 10);
    return errno == 0 && (dtype == BURN_I64 || *text != '-');
}

int32_t burn_lib_text_read(burn_run *run, int64_t site, int64_t dtype, int64_t count, const int64_t *x, void *numbers) {
    char text[512];
    for (int64_t i = 0; i < count; i++) {
        burn_span span = burn_text_span(x[i]);
        while (span.bytes && is_blank(span.data[0]))
            span = (burn_span){span.data + 1, span.bytes - 1};
        while (span.bytes && is_blank(span.data[span.bytes - 1]))
            span.bytes--;
        int fits = span.bytes < (int64_t)sizeof text && !memchr(span.data, 0, (size_t)span.bytes);
        memcpy(text, span.data, fits ? (size_t)span.bytes : 0);
        text[fits ? span.bytes : 0] = 0;
        if (!parse(dtype, text, numbers, i)) {
            memset((char *)numbers + i * 8, 0, 8);
            burn_rt_fail(run, BURN_BAD_TEXT, site, i);
        }
    }
    return burn_rt_status(run);
}
