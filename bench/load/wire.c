#define _GNU_SOURCE
#include "wire.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CLIENT_ID "headgate-load"

void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s: ", program_invocation_short_name);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    exit(1);
}

void *room_for(size_t bytes) {
    void *room = calloc(1, bytes);
    if (!room) fail("no memory for %zu bytes", bytes);
    return room;
}

uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint8_t *put_number(uint8_t *at, uint64_t value, int bytes) {
    for (int i = bytes - 1; i >= 0; i--, value >>= 8) at[i] = (uint8_t)value;
    return at + bytes;
}

uint8_t *put_varint(uint8_t *at, uint32_t value) {
    while (value >= 0x80) {
        *at++ = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    *at++ = (uint8_t)value;
    return at;
}

uint8_t *put_text(uint8_t *at, const char *text) {
    size_t length = strlen(text);
    at = put_varint(at, (uint32_t)length + 1);
    memcpy(at, text, length);
    return at + length;
}

uint8_t *put_header(uint8_t *at, int api_key, int api_version) {
    at = put_number(at, 0, 4);
    at = put_number(at, (uint64_t)api_key, 2);
    at = put_number(at, (uint64_t)api_version, 2);
    at = put_number(at, 0, 4); /* correlation id */
    at = put_number(at, strlen(CLIENT_ID), 2); /* the header's client id is an old-style string */
    memcpy(at, CLIENT_ID, strlen(CLIENT_ID));
    return put_varint(at + strlen(CLIENT_ID), 0);
}

void need(struct cursor *c, size_t bytes) {
    if ((size_t)(c->end - c->at) < bytes) fail("an answer ends too early");
}

uint64_t take_number(struct cursor *c, int bytes) {
    uint64_t value = 0;
    need(c, (size_t)bytes);
    while (bytes--) value = value << 8 | *c->at++;
    return value;
}

uint32_t take_varint(struct cursor *c) {
    uint32_t value = 0;
    for (int shift = 0; shift < 35; shift += 7) {
        uint8_t byte = (uint8_t)take_number(c, 1);
        value |= (uint32_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) return value;
    }
    fail("a number in an answer never ends");
}

uint32_t take_array(struct cursor *c) {
    uint32_t count = take_varint(c);
    return count ? count - 1 : 0;
}

void skip_text(struct cursor *c) {
    uint32_t length = take_varint(c);
    if (length > 1) {
        need(c, length - 1);
        c->at += length - 1;
    }
}

void skip_tags(struct cursor *c) {
    for (uint32_t tags = take_varint(c); tags; tags--) {
        take_varint(c);
        uint32_t bytes = take_varint(c);
        need(c, bytes);
        c->at += bytes;
    }
}
