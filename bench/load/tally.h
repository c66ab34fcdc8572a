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

/* A time for whose answers tallies count, after a warm-up. */
struct counted_time {
    uint64_t from_ns, end_ns, now_ns;
};

struct counted_time counted_time(double warm_up_seconds, double seconds);

/* Whether it goes on; has the tally count as soon as the warm-up is over. */
bool goes_on(struct counted_time *time, struct tally *tally);

/* How long was counted, to when it was last asked. */
double counted_seconds(const struct counted_time *time);

/* Prints the counts as the members of a JSON object, `width` things a request, without its braces. */
void print_tally(const struct tally *tally, double seconds, int width);

#endif
