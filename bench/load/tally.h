/* tally: what was answered: how often, how late, and with which errors.
 *
 * Latencies go into a histogram of 64 steps to each power of two (1.6 % wide), in nanoseconds. */
#ifndef HEADGATE_TALLY_H
#define HEADGATE_TALLY_H

#include <stdbool.h>
#include <stdint.h>

enum { STEPS_BITS = 6, STEPS = 1 << STEPS_BITS, BUCKETS = 64 * STEPS, ERROR_CODES = 512 };

struct tally {
    uint64_t answers, latency[BUCKETS], slowest_ns, errors[ERROR_CODES], missing;
    bool counting; /* nothing is noted before */
};

void note_latency(struct tally *tally, uint64_t ns);

/* Fails the run if the code, as it stands in the answer, is none of Kafka's. */
void note_error(struct tally *tally, uint64_t wire);

/* Prints the counts as the members of a JSON object, `width` things a request, without its braces. */
void print_tally(const struct tally *tally, double seconds, int width);

#endif
