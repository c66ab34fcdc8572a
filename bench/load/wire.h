/* wire: the protocol's numbers, texts and arrays, to and from bytes; and how a run ends that went wrong. */
#ifndef HEADGATE_WIRE_H
#define HEADGATE_WIRE_H

#include <stddef.h>
#include <stdint.h>

/* Prints what went wrong and ends the program with status 1. */
__attribute__((format(printf, 1, 2), noreturn)) void fail(const char *format, ...);

/* Zeroed memory that is there, or the run fails. */
void *room_for(size_t bytes);

uint64_t now_ns(void);

/* ---- writing: big-endian numbers, unsigned varints, compact strings; each returns where the next goes -------- */

uint8_t *put_number(uint8_t *at, uint64_t value, int bytes);
uint8_t *put_varint(uint8_t *at, uint32_t value);
uint8_t *put_text(uint8_t *at, const char *text);

/* A request's size (to be filled in), header and client id. */
uint8_t *put_header(uint8_t *at, int api_key, int api_version);

/* ---- reading: a cursor that fails the run when an answer is shorter than it says ------------------------------ */

struct cursor {
    const uint8_t *at, *end;
};

void need(struct cursor *c, size_t bytes);
uint64_t take_number(struct cursor *c, int bytes);
uint32_t take_varint(struct cursor *c);
uint32_t take_array(struct cursor *c);
void skip_text(struct cursor *c);
void skip_tags(struct cursor *c);

#endif
